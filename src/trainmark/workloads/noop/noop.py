"""Starts and ends; with steps, a load whose speed is known exactly: it sleeps, and each step takes its share."""

from __future__ import annotations

import time

import trainmark_probe as probe


def main() -> None:
    config = probe.config(seconds=0.0, steps=0, batch=1)
    seconds, steps, batch = (config["params"][name] for name in ("seconds", "steps", "batch"))
    probe.init(unit="samples")
    probe.init_end()
    probe.train_start()
    start = time.monotonic()
    for number in range(1, steps + 1):
        # Against the clock, so that late wake-ups do not add up.
        time.sleep(max(0.0, start + seconds * number / steps - time.monotonic()))
        probe.step(batch)
    if not steps and seconds:
        time.sleep(seconds)
    probe.train_end()
    probe.finish()


if __name__ == "__main__":
    main()
