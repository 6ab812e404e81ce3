"""`trainmark version`."""

from __future__ import annotations

import argparse
import sys

from trainmark import __version__


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def call(_args: argparse.Namespace) -> int:
    sys.stdout.write(f"trainmark {__version__} (Python {sys.version.split()[0]})\n")
    return 0
