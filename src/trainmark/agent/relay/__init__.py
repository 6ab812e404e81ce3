"""The relay: what a controller talks to on a host that it shares no files with."""
