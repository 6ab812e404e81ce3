"""ModelArts v2 training jobs and OBS on one port of loopback, for the official clients of both.

`server` answers, `objects` keeps, `jobs` schedules, `worker` runs. Called by `cli` alone.
"""
