"""The agent inside a Slurm allocation.

`batch_job` starts an srun step for each order of the controller, `step` is the agent's start on each node of a step.
Called by verbs of the agent; the Slurm launcher knows the names of the files.
"""
