"""The one program on a node: starts ranks, watches them, and leaves nothing behind.

Standard library only, Python 3.7 and later. Launchers start it by its verbs (`main`) and read the files it writes;
`contain`, `events`, `mpi`, `relay` and `slurm` are its parts.
"""
