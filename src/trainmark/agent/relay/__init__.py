"""The relay: serves a controller on a host that it shares no files with, over one connection.

`main` answers requests, `attempt` sends the files of attempts as they grow, `frames` is the protocol.
Called by the agent's verb `relay`; launchers use `frames` for their end.
"""
