"""What runs inside a training process; standard library only, Python 3.7 and later.

Training programs import `trainmark_probe`, one file that can be copied anywhere; the other modules measure unmodified
programs of `trainmark exec` (`site`, `trainmark_torch_*`) and diagnostic rounds. Nothing else imports them.
"""
