"""Events on a node: read from the ranks' spool files or from their output, written into one events.jsonl.

`reader` follows the file of one rank, `shipper` moves the events of all, `spools` are the folders, `pattern` makes
events of printed lines. Called by the round, and by launchers for the folder of a killed agent.
"""
