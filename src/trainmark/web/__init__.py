"""The server: accounts, jobs, a queue and an API over the library. Only `cli/serve.py` calls it.

`service/` knows no web framework, `queue/` decides what runs on this machine, `api/` is HTTP and nothing else.
"""
