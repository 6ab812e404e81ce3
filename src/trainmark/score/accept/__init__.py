"""Which nodes and links of a fleet are slow, and whether promises about them are kept.

`nodes` and `links` compare them with each other, `contract` with promises and stored criteria. Reports and the
acceptance campaign call them.
"""
