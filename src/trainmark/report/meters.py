"""What an external meter read: a CSV file, or the answer of a Prometheus server. Times are of the world's clock."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from trainmark.errors import UserError

# Host, or `` for a meter of the one host there is → (seconds since 1970, watts).
Meter = Mapping[str, Sequence[tuple[float, float]]]
_SECONDS = 30.0
_TIME, _WATTS, _HOST = "time", "watts", "host"


def read_csv(path: Path) -> Meter:
    """Columns `time` (seconds since 1970, or ISO 8601 with a zone), `watts`, and `host` where it is of several."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    if not rows or not {_TIME, _WATTS} <= set(rows[0]):
        raise UserError(f"{path}: a meter's file begins with a line of names: `time,watts` or `time,watts,host`")
    found: dict[str, list[tuple[float, float]]] = {}
    for number, row in enumerate(rows, 2):
        try:
            point = (_seconds(row[_TIME]), float(row[_WATTS]))
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: line {number}: found {row}, allowed is a time and a number of watts") from error
        found.setdefault(row.get(_HOST) or "", []).append(point)
    return {host: sorted(points) for host, points in found.items()}


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("a time without its zone") from None
        return moment.timestamp()


def ask_prometheus(address: str, query: str, begin: float, end: float, step: float = 1.0) -> Meter:
    """A range of values of a query, by the label `host`, or the host in `instance`."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise UserError(f"--prometheus: found {address!r}, allowed is http://HOST:PORT")
    asked = urlencode({"query": query, "start": begin, "end": end, "step": step})
    try:
        with urlopen(f"{address.rstrip('/')}/api/v1/query_range?{asked}", timeout=_SECONDS) as reply:  # noqa: S310
            answer: Any = json.load(reply)
    except (URLError, OSError, ValueError) as error:
        raise UserError(f"{address}: no answer to the query: {error}") from error
    found: dict[str, list[tuple[float, float]]] = {}
    for series in answer.get("data", {}).get("result", []):
        labels = series.get("metric", {})
        host = labels.get("host") or str(labels.get("instance", "")).rpartition(":")[0]
        found.setdefault(host, []).extend((float(at), float(value)) for at, value in series.get("values", []))
    if not found:
        raise UserError(f"{address}: the query `{query}` has no values in the time of the run")
    return {host: sorted(points) for host, points in found.items()}
