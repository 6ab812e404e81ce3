"""Which nodes and links of a cluster are slow."""
