"""The workers of a job that is a command: its home, and between several of them ssh and a meeting at the start and end.

Called by verbs of the agent only. The first worker is the head; each of the others keeps a connection to it.
"""
