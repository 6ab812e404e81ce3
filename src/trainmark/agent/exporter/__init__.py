"""Readings of a node for Prometheus: devices, and the rounds that run there with their speed and loss.

`metrics` makes the text, `serve` answers, `control` starts and stops it. Started by `trainmark monitor`.
"""
