"""The launcher for this machine: one agent, started in a session of its own so that it outlives its controller.

Only `launch.protocol` names its class; the rest of trainmark asks for its capabilities.
"""
