"""What to measure: case ids, workloads, suites, sites, and how their layers make one case."""
