"""Other tools' logs and results, in and out: `protocol.py` says what a format is, `reading/` and `writing/` serve all.

The library and the command line call it; a format of a third party is found by its entry point.
"""
