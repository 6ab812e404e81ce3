"""Run directories → records: what reports show. `report.build` makes the one of a run, these modules the others and its
parts; the command line, the library and `interop` call them.
"""
