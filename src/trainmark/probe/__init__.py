"""What lives inside a training process: `trainmark_probe.py`, one file that can be copied anywhere."""
