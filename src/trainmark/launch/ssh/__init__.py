"""The launcher for hosts over ssh: one connection to each, a relay and an agent at its other end, nothing installed.

Only `launch.protocol` names its class. `slurm.setup` uses its connections.
"""
