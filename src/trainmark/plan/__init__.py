"""Suite × site → Plan. Pure: printing the plan is the dry run."""
