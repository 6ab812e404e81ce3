"""The ledger of trials that all workers share, on an Optuna storage, and the files beside it.

`ledger` is what workers and the controller call; `storage` connects to a journal file, a gRPC proxy or a database;
`files` holds graphs, weights and checkpoints.
"""
