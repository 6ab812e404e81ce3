"""Which devices a step of Slurm sees on its node: the verb `slurm-devices VENDOR …`, once on each node."""

from __future__ import annotations

import os
from typing import Any

from trainmark.agent.relay.check import devices

_VARIABLES = ("ZE_AFFINITY_MASK",)


def seen(*vendors: str) -> dict[str, Any]:
    """`visible` is what ranks would inherit: Slurm sets it to the devices that it hands out."""
    chosen = {
        name: value for name, value in os.environ.items() if name.endswith("_VISIBLE_DEVICES") or name in _VARIABLES
    }
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return {"node": node, "visible": chosen, "devices": devices(list(vendors))}
