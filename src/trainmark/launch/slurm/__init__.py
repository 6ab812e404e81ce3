"""The launcher for Slurm: one job holds the nodes for many rounds, each round is a step in it.

Only `launch.protocol` names its class. `setup` and `configuration` serve `trainmark slurm init`.
"""
