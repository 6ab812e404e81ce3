"""The ledger of trials that all workers share, and the files beside it."""
