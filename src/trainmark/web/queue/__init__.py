"""The embedded queue: which jobs may start now, and the thread that starts and follows their runs.

`policy.py` is a pure function; `keeper.py` carries it out through the library.
"""
