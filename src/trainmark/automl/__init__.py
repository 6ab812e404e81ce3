"""AutoML as a benchmark: networks that grow, searches that choose them, workers that train them, and a score.

`cli`, `web` and the workload `automl_trial` call it. Sub-packages: graph, search, ledger, experiment, aah.
"""
