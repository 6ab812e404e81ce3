"""Search policies and hyper-parameter search."""
