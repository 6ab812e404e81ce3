"""What several configurations or attempts show together: speed-up, predictions for more nodes, goodput of a long job.

`published` holds scaling tables of DLPerf, against which predictions are checked. Reports call these modules.
"""
