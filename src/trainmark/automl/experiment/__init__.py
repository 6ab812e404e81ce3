"""An experiment: its configuration, its plan, its workers and their supervision, and its result.

`config` and `reading` are the file, `plan` and `supervisor` the controller's part, `worker` the worker's;
`record`, `rules`, `score` and `result` make the result from the run directory, purely.
"""
