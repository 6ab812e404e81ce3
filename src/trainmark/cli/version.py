"""`trainmark version`."""

from __future__ import annotations

import argparse
import sys

from trainmark import __version__
from trainmark.cli import terminal


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def call(_args: argparse.Namespace) -> int:
    terminal.out(f"trainmark {__version__} (Python {sys.version.split()[0]})\n")
    return 0
