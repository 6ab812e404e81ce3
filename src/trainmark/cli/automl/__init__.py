"""`trainmark automl VERB …`. `verbs` is the table; `run`, `look` and `network` hold the verbs. Called by `cli.main`."""
