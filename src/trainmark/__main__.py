"""`python -m trainmark`."""

from trainmark.cli.main import entry

entry()
