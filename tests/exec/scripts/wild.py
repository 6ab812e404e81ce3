"""Becomes another Python, prints what is no text, removes variables, and then trains."""

import os
import runpy
import sys

assert hasattr(sys, "own_sitecustomize_ran"), "the user's sitecustomize was not run"
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
os.write(1, bytes(range(256)) * 100)
for name in [name for name in os.environ if name.startswith("TRAINMARK")]:
    del os.environ[name]
runpy.run_path("partial_batch.py", run_name="__main__")
