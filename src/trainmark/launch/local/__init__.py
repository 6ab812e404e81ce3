"""This machine: one agent, started in a session of its own."""
