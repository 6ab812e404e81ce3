"""Hosts over ssh: one connection and one agent each."""
