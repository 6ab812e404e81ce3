"""How the next architecture and its hyper-parameters are chosen.

`policy` has the protocol and the table of policies; `generator` puts a policy's proposals into the ledger; `hpo`
suggests hyper-parameters. Workers call it.
"""
