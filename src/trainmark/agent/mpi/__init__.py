"""Commands that start ranks on all nodes from the first one (mpirun, horovodrun, srun)."""
