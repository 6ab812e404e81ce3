"""Search policies; `trainmark.automl.policy` says what one is."""
