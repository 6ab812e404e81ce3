"""The RoCE port that each of Ascend's devices has: its counters, by the library where that tells them, else by
`hccn_tool -i N -stat -g`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from trainmark.devices.node_side.readings import Device, Rates
from trainmark.devices.node_side.tools import find, said

TOOL = "hccn_tool"
_FOLDERS = ("/usr/local/Ascend/driver/tools", "/usr/local/bin")
_QUEUES = range(8)
# In the order of the library's `dcmi_network_pkt_stats_info`.
COUNTERS = (
    ["mac_tx_mac_pause_num", "mac_rx_mac_pause_num", "mac_tx_pfc_pkt_num"]
    + ["mac_tx_pfc_pri%d_pkt_num" % queue for queue in _QUEUES]
    + ["mac_rx_pfc_pkt_num"]
    + ["mac_rx_pfc_pri%d_pkt_num" % queue for queue in _QUEUES]
    + ["mac_tx_total_pkt_num", "mac_tx_total_oct_num", "mac_tx_bad_pkt_num", "mac_tx_bad_oct_num"]
    + ["mac_rx_total_pkt_num", "mac_rx_total_oct_num", "mac_rx_bad_pkt_num", "mac_rx_bad_oct_num"]
    + ["mac_rx_fcs_err_pkt_num", "roce_rx_rc_pkt_num", "roce_rx_all_pkt_num", "roce_rx_err_pkt_num"]
    + ["roce_tx_rc_pkt_num", "roce_tx_all_pkt_num", "roce_tx_err_pkt_num", "roce_cqe_num"]
    + ["roce_rx_cnp_pkt_num", "roce_tx_cnp_pkt_num", "roce_err_ack_num", "roce_err_psn_num"]
    + ["roce_verification_err_num", "roce_err_qp_status_num", "roce_new_pkt_rty_num", "roce_ecn_db_num"]
    + ["nic_tx_all_pkg_num", "nic_tx_all_oct_num", "nic_rx_all_pkg_num", "nic_rx_all_oct_num"]
)
_BAD = ("mac_tx_bad_pkt_num", "mac_rx_bad_pkt_num", "roce_rx_err_pkt_num", "roce_tx_err_pkt_num")
_RETRIED = "roce_new_pkt_rty_num"


def parse(text: str) -> dict[str, int] | None:
    """`name:number` lines behind the line `packet statistics:`; None where that is missing."""
    _, found, body = text.partition("packet statistics:")
    if not found:
        return None
    pairs = (line.strip().partition(":") for line in body.splitlines())
    return {name: int(value) for name, _, value in pairs if value.strip().isdigit()}


def readings(counts: Mapping[str, int], rates: Rates, device: int, now: float) -> Device:
    """What counters say of a device's port; what they do not tell is missing."""
    moved = {"roce_rx": counts.get("mac_rx_total_oct_num"), "roce_tx": counts.get("mac_tx_total_oct_num")}
    bad = [counts[name] for name in _BAD if name in counts]
    found: Device = dict(rates.per_second(device, now, moved))
    found["roce_errors"] = sum(bad) if bad else None
    found["roce_retries"] = counts.get(_RETRIED)
    return found


class Ports:
    """Asks the tool for one device at each look, in turn: it is a process for each. One that fails once is not asked
    again."""

    def __init__(self) -> None:
        self._path = find(TOOL, _FOLDERS)
        self._looks = 0
        self._rates = Rates()

    def add(self, devices: list[Device]) -> None:
        """Puts what is known of one port into the reading of its device. The tool counts devices as processes do where
        no container hides some of them."""
        if self._path is None or not devices:
            return
        device = devices[self._looks % len(devices)]
        self._looks += 1
        answer = said([self._path, "-i", str(device["index"]), "-stat", "-g"])
        counts = parse(answer.text) if answer.problem is None else None
        if counts is None:
            self._path = None
            return
        found = readings(counts, self._rates, device["index"], time.monotonic())
        device.update({name: value for name, value in found.items() if value is not None})
