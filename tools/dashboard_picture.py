"""Makes `docs/monitor-panels.png`: the panels of the Grafana dashboard, with what a real Prometheus answers.

No Grafana server is in the registries of packages; its panels are: `@grafana/ui` of npm, which draws them here as it
does in Grafana. Everything before that is as on a cluster: the exporter reads devices (those of the tests' NVML) and
rounds, Debian's Prometheus scrapes it and its node exporter, and each panel's query goes to Prometheus' own interface.
Needs npm and Chromium. A folder that is named keeps npm's packages for the next time.
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

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "monitor-panels.png"
_PANELS = ROOT / "tools" / "grafana_panels.jsx"
_PACKAGES = ("@grafana/ui@12", "@grafana/data@12", "@grafana/schema@12", "react@18", "react-dom@18", "esbuild@0.25")
_SECONDS = 25
_ROUNDS = (
    ("gpt2:pytorch:cpu:1:2:1", "--preset", "smoke", "--set", "steps=600"),
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
            ended = time.time()
            panels = monitoring.dashboard("lab")["panels"]
            answers = [_answer(panel, server, began, ended) for panel in panels]
        finally:
            for process in started:
                process.terminate()
                process.wait()
            _trainmark(folder, "monitor", "stop")
        data = {"panels": panels, "answers": answers, "began": began, "ended": ended}
        _picture(_page(folder, Path(sys.argv[1]) if sys.argv[1:] else folder / "npm", data))


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


def _answer(panel: dict[str, Any], server: int, began: float, ended: float) -> list[dict[str, Any]]:
    """What Prometheus says to a panel: a name, times and values of each series."""
    (target,) = panel["targets"]
    asked = {"query": target["expr"].replace("$host", ".*"), "start": began, "end": ended, "step": 1}
    address = f"http://127.0.0.1:{server}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(address, timeout=30) as reply:
        series = json.load(reply)["data"]["result"]
    found = []
    for one in series:
        name = target["legendFormat"]
        for label, value in one["metric"].items():
            name = name.replace("{{" + label + "}}", value)
        times, values = zip(*((at, float(value)) for at, value in one["values"]), strict=True)
        found.append({"name": name, "times": times, "values": values})
    return found


def _page(folder: Path, packages: Path, data: dict[str, Any]) -> Path:
    """A page with Grafana's components in it, and what they show."""
    packages.mkdir(exist_ok=True)
    (packages / "package.json").write_text("{}")
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
    subprocess.run(["npm", "install", *flags, *_PACKAGES], cwd=packages, check=True)
    shutil.copy(_PANELS, packages / "panels.jsx")
    bundle = ["--bundle", "--format=iife", "--jsx=automatic", "--loader:.ttf=dataurl", "--define:global=window"]
    bundle += ['--define:process.env.NODE_ENV="production"', f"--outfile={folder / 'panels.js'}"]
    subprocess.run([packages / "node_modules/.bin/esbuild", "panels.jsx", *bundle], cwd=packages, check=True)
    page = folder / "panels.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><div id="root"></div>'
        f'<script>window.DATA = {json.dumps(data)}</script><script src="panels.js"></script>'
    )
    return page


def _picture(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        sheet = browser.new_page(viewport={"width": 1280, "height": 900})
        sheet.goto(page.as_uri())
        sheet.wait_for_selector("canvas")
        sheet.wait_for_timeout(2000)  # each panel draws when it has been measured
        sheet.locator("#root > div").screenshot(path=OUT)
        browser.close()


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _trainmark(folder: Path, *argv: str) -> None:
    subprocess.run([sys.executable, "-m", "trainmark", *argv], cwd=folder, check=False)


if __name__ == "__main__":
    main()
