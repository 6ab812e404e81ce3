"""Runs several scripts as ranks of one command: torch is imported once, each script has a process of its own."""

import os
import runpy
import sys

import torch._dynamo  # noqa: F401 - any optimizer imports it, which takes seconds

failed = 0
for rank, script in enumerate(sys.argv[1:]):
    child = os.fork()
    if child == 0:
        os.environ["RANK"] = str(rank)
        sys.argv = [script]
        runpy.run_path(script, run_name="__main__")
        sys.exit(0)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed)
