"""The run directory (the truth) and the index of runs (a cache that can be rebuilt)."""
