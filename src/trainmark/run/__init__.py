"""The loop that drives a run: rounds, attempts, deadlines, leases, resume and stop; and campaigns, runs decided as
they go. Planning, looking at runs and stopping them are here, too. Called by the library and the command line; every
function works in any thread.
"""
