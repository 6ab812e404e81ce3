"""Columns of events → figures, verdicts, studies, diagnoses: pure functions on arrays, without files or processes.

`records` has what they give. Reports, the run loop and exporters call it; it knows only `spec` and `reasons`.
"""
