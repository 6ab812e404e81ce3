"""Statistics on values of runs: intervals, verdicts on two sides, change points, how many runs are enough.

Reports, comparisons, campaigns and the run loop call them. Nothing here knows what the values are of.
"""
