"""Work that takes several runs, each decided by what the earlier ones showed: acceptance, bisection, the largest batch.

Each kind is a pure decision for the driver in `trainmark.run.campaign`. Called by `trainmark.api` and the CLI.
"""
