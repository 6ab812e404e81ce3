"""The agent inside a Slurm job: the batch job and its steps."""
