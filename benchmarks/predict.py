"""How good predictions are: on published tables, fitted up to 2 nodes, held against 4, each foretold by the others."""

from __future__ import annotations

import math
from statistics import median

from figures import Figure, at_least, show

from trainmark.score.studies.predict import calibrate, predict, published
from trainmark.score.studies.published import COLUMNS, TABLES
from trainmark.score.studies.scaling import ScalePoint

HOW = (
    "published tables of 4 x 8 GPUs: the points up to 2n8g go in, 4n8g is predicted; the model's fade and errors come "
    "from all tables but the one that is predicted; a cell is inside when the published speed lies in its 90 % interval"
)


def main() -> None:
    rows = published()
    inside, widths, misses = 0, [], []
    for row in rows:
        others = calibrate([other for other in rows if other.table != row.table])
        cells = TABLES[row.table][row.row]
        points = [
            ScalePoint(nodes, procs, [speed])
            for (nodes, procs), speed in zip(COLUMNS, cells, strict=True)
            if speed is not None and nodes < 4
        ]
        truth = cells[-1] or math.nan
        found = predict(points, 4, found=others)
        widths.append(found.high / found.low - 1)
        if found.low <= truth <= found.high:
            inside += 1
        else:
            misses.append(f"{row.table}, {row.row}: {found.low:.0f} … {found.high:.0f}, published {truth:.0f}")
    share = 100 * inside / len(rows)
    width = Figure(
        "median width of prediction intervals at 4n8g", "%", 100 * median(widths), None, None, "ours",
        100 * median(widths), "stated", True,
    )  # fmt: skip
    details = {
        "cells": len(rows), "tables": len({row.table for row in rows}), "inside": inside, "outside": misses,
        "widest_percent": 100 * max(widths),
    }  # fmt: skip
    show("predict", HOW, [at_least("4n8g cells inside their interval", "%", share, 80), width], details)


if __name__ == "__main__":
    main()
