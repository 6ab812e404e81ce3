"""Statistics: intervals, verdicts, change points, sample sizes."""
