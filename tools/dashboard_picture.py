"""Makes `docs/monitor-panels.png`: what the panels of the Grafana dashboard ask for, as a real Prometheus answers.

No Grafana is at hand: its panels are drawn by trainmark's own charts. Everything before that is as on a cluster: the
exporter reads devices (those of the tests' NVML) and rounds, Debian's Prometheus scrapes it and its node exporter, and
each panel's query goes to Prometheus' own interface.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from trainmark.launch import monitoring
from trainmark.report import document as doc
from trainmark.report.charts.records import Curve, Line, LineChart
from trainmark.report.render import html

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "monitor-panels.png"
_SECONDS = 25
_ROUNDS = (
    ("gpt2:pytorch:cpu:1:2:1", "--preset", "smoke", "--set", "steps=2000"),
    ("noop:none:nvidia:1:4:1", "--set", f"seconds={_SECONDS}", "--set", "steps=500", "--set", "batch=8"),
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="trainmark-panels-") as name:
        folder = Path(name)
        source, library = ROOT / "tests/devices/fake_nvml.c", folder / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
        # Nothing is measured here: a run beside it does not matter.
        os.environ.update(LD_LIBRARY_PATH=name, FAKE_NVML_WAVE="1", TRAINMARK_BESIDE="1")
        exporter, node, server = _port(), _port(), _port()
        _trainmark(folder, "monitor", "start", "--port", str(exporter))
        started = [
            subprocess.Popen(argv, stderr=subprocess.DEVNULL) for argv in _servers(folder, exporter, node, server)
        ]
        try:
            began = time.time()
            for round_ in _ROUNDS:
                _trainmark(folder, "run", *round_)
            charts = [_chart(panel, server, began, time.time()) for panel in monitoring.dashboard("lab")["panels"]]
        finally:
            for process in started:
                process.terminate()
                process.wait()
            _trainmark(folder, "monitor", "stop")
        page = folder / "panels.html"
        heading = "What the panels ask Prometheus for, drawn by trainmark (not Grafana)"
        page.write_text(html.render(doc.Document("panels", "monitor", heading, [doc.Figures(charts)])))
        _picture(page)


def _servers(folder: Path, exporter: int, node: int, server: int) -> list[list[str]]:
    config = monitoring.prometheus(["127.0.0.1"], exporter)
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{node}"]
    (folder / monitoring.CONFIG).write_text(json.dumps(config))
    (folder / monitoring.ALERTS).write_text(json.dumps(monitoring.alerts()))
    files = [f"--config.file={folder / monitoring.CONFIG}", f"--storage.tsdb.path={folder / 'data'}"]
    return [
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{node}"],
        ["prometheus", *files, f"--web.listen-address=127.0.0.1:{server}"],
    ]


def _chart(panel: dict[str, Any], server: int, began: float, ended: float) -> LineChart:
    (target,) = panel["targets"]
    asked = {"query": target["expr"].replace("$host", ".*"), "start": began, "end": ended, "step": 1}
    address = f"http://127.0.0.1:{server}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(address, timeout=30) as reply:
        series = json.load(reply)["data"]["result"]
    unit = panel["fieldConfig"]["defaults"]["unit"]
    lines = []
    for one in series:
        name = target["legendFormat"]
        for label, value in one["metric"].items():
            name = name.replace("{{" + label + "}}", value)
        x, y = zip(*((at - began, float(value)) for at, value in one["values"]), strict=True)
        lines.append(Line(name, Curve(name, "", list(x), list(y))))
    return LineChart(panel["title"], lines, "time", "s", y_unit=unit if unit != "short" else "", zero=True)


def _picture(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        sheet = browser.new_page(viewport={"width": 1280, "height": 900})
        sheet.goto(page.as_uri())
        # The footer speaks of runs: this is none.
        sheet.evaluate("document.querySelector('footer').remove()")
        sheet.screenshot(path=OUT, full_page=True)
        browser.close()


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _trainmark(folder: Path, *argv: str) -> None:
    subprocess.run([sys.executable, "-m", "trainmark", *argv], cwd=folder, check=False)


if __name__ == "__main__":
    main()
