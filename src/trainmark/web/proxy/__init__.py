"""Endpoints of jobs for browsers: each on a host name of its own, so that a job's page is no page of the server.

`front.py` is before the whole application and decides by the host name; only `web/serving.py` calls it.
"""
