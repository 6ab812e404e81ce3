"""What the node halves of all vendors share: names and units of readings, vendors' tools, reading their texts.

Runs on nodes: standard library only, Python 3.7. The agent starts `watch.py` as one process per node.
"""
