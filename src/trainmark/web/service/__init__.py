"""What the server can do, without HTTP: accounts, sessions, jobs, files, results. Called by `web/api` and `web/queue`.

Every function that gives something of a user takes the principal who asks, and refuses what is not theirs.
"""
