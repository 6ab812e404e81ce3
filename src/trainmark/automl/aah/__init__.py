"""AAH's and AIPerf's configuration files."""
