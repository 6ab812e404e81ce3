"""`trainmark init`: a suite and a site with everything explained, ready to run as they are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainmark.errors import UserError

SUITE = """\
# A suite: which cases, how often, under which rules. Run it:  trainmark run suite.yaml
schema: 1
name: my-suite
title: what this suite is for

preset: smoke          # size of every case: smoke (seconds), quick (a minute), full (the real thing)
division: closed       # open: locked parameters may be changed, and every result says so
# seed: 1              # order of rounds and seeds of training; without it one is drawn and recorded
# retries: 1           # further attempts for rounds lost to the machine (never for failures of the case)
# repeat_auto: {target: 2%, pilot: 5, min: 10, max: 30}   # for `repeat: auto`: as many rounds as ±target takes
# set: {batch: 32}     # parameters for every case that has them; what a case says itself is stronger
# deadlines: {start: 120, step: 60, total: 900}   # seconds; each case has its own without this
# workloads: [./workloads]                        # folders that hold workloads of your own

cases:
  # workload:framework:device:nnodes:nproc:repeat
  - noop:none:cpu:1:1:2

  # A parameter that differs from the preset is part of the id.
  - resnet50:pytorch:cpu:1:1:1@batch=2

  # The same as a mapping, with where its data lies. `trainmark explain CASE` shows all parameters.
  # - case: mnist:pytorch:cpu:1:2:1
  #   data: /data/mnist            # or fashion-mnist, after `trainmark data get fashion-mnist`
  #   set: {batch: 128}

  # FlagPerf's way: key and data path.
  # - mnist:pytorch:cpu:1:1:1: /data/mnist

  # A training command of your own, unmodified; `{batch}` stands for the value (docs/exec.md).
  # - command: [python, train.py, --batch-size, "{batch}"]
  #   batch: 32
  #   unit: images
  #   repeat: 3

  # A matrix: every combination is a case of its own.
  # - matrix:
  #     workload: resnet50
  #     framework: pytorch
  #     procs: [1, 2]
  #     batch: [4, 8]
  #   repeat: 3
"""

SITE = """\
# A site: where cases run. Use it:  trainmark run suite.yaml --site site.yaml
schema: 1
name: my-machine
launcher: local                     # or ssh, with `hosts: ["node[1-4]"]` and more: see docs/sites.md

# python: /opt/venv/bin/python      # the Python that trains (default: the one trainmark runs in)
# devices: {A100: nvidia}           # what a device name in a case id means here
# data: {fashion-mnist: /data/fm}   # where named data sets lie here
# env: {NCCL_DEBUG: WARN}           # environment of every rank
# unset: [http_proxy]               # variables ranks must not inherit
# master_port: 29500                # a fixed rendezvous port (default: any free one)
# containment: auto                 # pidns, cgroup or subreaper; auto takes the strongest there is
# tuning:
#   threads: auto                   # OMP threads per rank (auto: cores ÷ ranks)
#   affinity: auto                  # none: let the kernel place ranks
#   allocator: auto                 # tcmalloc, glibc (tuned) or default
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: here")


def call(args: argparse.Namespace) -> int:
    files = {args.dir / "suite.yaml": SUITE, args.dir / "site.yaml": SITE}
    there = [str(file) for file in files if file.exists()]
    if there:
        raise UserError(f"{', '.join(there)}: already there; nothing was written")
    try:
        args.dir.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{args.dir}: cannot be written: {error.strerror}") from None
    names = " and ".join(str(file) for file in files)
    sys.stdout.write(f"wrote {names}; try `trainmark run {args.dir / 'suite.yaml'} --site {args.dir / 'site.yaml'}`\n")
    return 0
