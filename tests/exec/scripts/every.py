"""Runs several scripts as ranks of one command: torch is imported once, each script has a process of its own.

After `--one-rank` all of them are the same rank, one after another.
"""

import multiprocessing
import os
import runpy
import sys

import torch._dynamo  # noqa: F401 - any optimizer imports it, which takes seconds


def run(rank, script):
    if rank is not None:
        os.environ["RANK"] = str(rank)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


scripts = [word for word in sys.argv[1:] if word != "--one-rank"]
same = len(scripts) < len(sys.argv) - 1
failed = 0
fork = multiprocessing.get_context("fork")
for rank, script in enumerate(scripts):
    # Leaves without taking the interpreter apart, which takes seconds with torch in it.
    process = fork.Process(target=run, args=(None if same else rank, script))
    process.start()
    process.join()
    failed += process.exitcode != 0
sys.exit(failed)
