"""Experiments: configuration, plan, workers, record, rules, result."""
