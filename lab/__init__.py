"""A lab of real hosts on one machine: try a cluster on a laptop, and test launchers against the real thing.

Each host has its own network, process, mount, IPC and host-name namespace, its own sshd with its own host key, its own
/tmp, /run, /var/log and home, and when asked a docker engine and a Slurm node daemon.
`python -m lab --help` tells how; docs/lab.md tells more.
"""
