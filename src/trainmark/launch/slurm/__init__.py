"""Slurm: one job holds the nodes, each round is a step in it."""
