"""Services that trainmark speaks to, on loopback, for trying things out and for tests; each in a folder of its own.

An emulator really does what it is asked for, and says in every answer that it is one. Called by `cli` alone.
"""
