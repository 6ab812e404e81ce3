"""Commands that start ranks on all nodes from the first one (mpirun, horovodrun, srun).

The `head` runs the command, each other node is a `member`; `wrappers` are programs that the command finds on its PATH.
Called by verbs of the agent only.
"""
