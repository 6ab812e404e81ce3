"""Formal tests over a network: the tester holds the definition of a test, the subject takes it, runs it and reports.
Uses bundles of `trust` for results; a run that belongs to a test is driven like any other.
Called by the command line alone.
"""

# Where a tester listens unless it is told otherwise.
PORT = 9527
