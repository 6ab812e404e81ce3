"""Starts, follows and ends attempts: one agent per node, on this machine, over ssh or under Slurm.

`protocol.py` is what a launcher is; each launcher is a folder and owns its options. Called by `run` and above.
"""
