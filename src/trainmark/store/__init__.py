"""The run directory, which is the truth: its layout, the journal, the state that follows from it, events as columns.
And the index of runs, a cache that can be rebuilt. Read by everything above; written by the loop and by imports.
"""
