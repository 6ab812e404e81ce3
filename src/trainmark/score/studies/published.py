"""Throughput of published scaling tables (DLPerf, 4 nodes x 8 V100), against which predictions are held.

`published.json`: table → row → samples/s of 1n1g, 1n2g, 1n4g, 1n8g, 2n8g, 4n8g; null was not published. A table is one
model in one number format with one framework; its rows are batch sizes per device and variants.
"""

from __future__ import annotations

from importlib import resources

import msgspec

COLUMNS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8))
TABLES = msgspec.json.decode(
    resources.files(__package__).joinpath("published.json").read_bytes(),
    type=dict[str, dict[str, tuple[float | None, ...]]],
)
