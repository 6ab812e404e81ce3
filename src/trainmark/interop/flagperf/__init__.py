"""FlagPerf: its run directories in and out, and its configuration in."""
