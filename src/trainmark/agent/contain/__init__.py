"""Containment: whatever the ranks start is gone when the round ends, even when the agent is killed.

`choose` opens the strongest kind that works (pidns, cgroup, subreaper); `guardian` and `sweep` clean up after a killed
agent. Called by the agent, by relays, and by launchers that share this machine.
"""
