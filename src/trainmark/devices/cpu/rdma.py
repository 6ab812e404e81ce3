"""The host's InfiniBand and RoCE ports, from the kernel's files: `/sys/class/infiniband/*/ports/*/`.

Traffic of RDMA goes past the kernel's tables of network cards. A host without such ports has none of these readings.
"""

from __future__ import annotations

import os
from typing import Any

from trainmark.devices.node_side.readings import Rates
from trainmark.devices.node_side.roots import sysfs

UNITS = {"rdma_rx": "bytes/s", "rdma_tx": "bytes/s", "rdma_errors": "number", "rdma_retries": "number"}
_WORD = 4  # the two counters of data count words of four bytes
_RECEIVED, _SENT = "counters/port_rcv_data", "counters/port_xmit_data"
# Since the port came up. Not every driver has all of them.
_ERRORS = (
    "counters/symbol_error",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/port_xmit_discards",
    "counters/local_link_integrity_errors",
)
_RETRIES = (
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/roce_adp_retrans",
)


class RdmaPorts:
    """All ports together."""

    def __init__(self) -> None:
        self._ports = _folders()
        self._rates = Rates()

    def read(self, now: float) -> dict[str, Any]:
        """Readings at a moment in seconds; what no port tells is None."""
        if not self._ports:
            return {}
        moved = {"rdma_rx": self._sum((_RECEIVED,), _WORD), "rdma_tx": self._sum((_SENT,), _WORD)}
        return {
            **self._rates.per_second("all", now, moved),
            "rdma_errors": self._sum(_ERRORS),
            "rdma_retries": self._sum(_RETRIES),
        }

    def _sum(self, names: tuple[str, ...], unit: int = 1) -> int | None:
        counts = [_count(os.path.join(port, name)) for port in self._ports for name in names]
        known = [count for count in counts if count is not None]
        return sum(known) * unit if known else None


def _folders() -> list[str]:
    root = os.path.join(sysfs(), "class/infiniband")
    found = []
    for device in _names(root):
        ports = os.path.join(root, device, "ports")
        found += [os.path.join(ports, port) for port in _names(ports)]
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _count(path: str) -> int | None:
    """Drivers answer `N/A (no PMA)` for counters that a port lacks."""
    try:
        with open(path, "rb") as file:
            text = file.read(64).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
