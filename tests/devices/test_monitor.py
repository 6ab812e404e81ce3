"""`trainmark monitor`: the exporter with a library of NVML's interface, and Debian's own Prometheus that scrapes it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.agent.exporter import metrics, serve
from trainmark.launch import monitoring


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture
def exporter(cli: Cli, fake_nvml: Path) -> Iterator[int]:
    port = free_port()
    cli("monitor", "start", "--port", str(port))
    yield port
    cli("monitor", "stop")


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as reply:
        text: str = reply.read().decode()
        return text


def test_the_exporter_is_started_once_answers_and_is_gone_afterwards(cli: Cli, exporter: int) -> None:
    pid = cli.json("monitor", "status", "--json").popitem()[1]["pid"]
    assert cli.json("monitor", "start", "--json").popitem()[1]["pid"] == pid, "one that runs is left alone"
    deadline = time.monotonic() + 20
    while "DCGM" not in (page := get(f"http://127.0.0.1:{exporter}/metrics")) and time.monotonic() < deadline:
        time.sleep(0.1)
    lines = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_POWER_USAGE{")]
    assert [float(line.rpartition(" ")[2]) for line in lines] == [100.0, 150.0, 200.0, 250.0]
    assert 'modelName="NVIDIA A100-SXM4-80GB"' in lines[0] and 'gpu="0"' in lines[0]
    cli("monitor", "stop")
    assert "not running" in cli("monitor", "status", code=3).stdout
    with pytest.raises(OSError):
        get(f"http://127.0.0.1:{exporter}/metrics")


def test_a_running_round_is_told_with_its_ranks(cli: Cli, exporter: int) -> None:
    training = cli.start("run", "noop:none:nvidia:1:2:1", "--set", "seconds=8", "--set", "steps=80")
    deadline, page = time.monotonic() + 30, ""
    while "trainmark_rank_step{" not in page and time.monotonic() < deadline:
        page = get(f"http://127.0.0.1:{exporter}/metrics")
        time.sleep(0.2)
    training.communicate(timeout=60)
    assert 'case="noop:none:nvidia:1:2:1@seconds=8.0,steps=80",round="1",rank="1"}' in page


def test_losses_that_are_told_at_once_and_later(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    lines = [
        {"k": "NOTE", "rank": 0},
        {"k": "STEP_END", "rank": 0, "step": 1, "n": 4, "loss": 2.5, "data": 2_000_000},
        {"k": "STEP_END", "rank": 1, "step": 3, "n": 4, "data": 3_000_000},
        {"k": "LOSS", "rank": 1, "steps": [2, 3], "values": [1.5, 1.25]},
        {"k": "LOSS", "rank": 0, "steps": [], "values": []},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert serve._told(str(file)) == {0: {"loss": 2.5, "data": 0.002}, 1: {"loss": 1.25, "data": 0.003}}


def test_labels_are_escaped_and_unknown_values_left_out() -> None:
    page = metrics.Page()
    metrics.devices(page, 'h"\n', {"vendor": "amd", "devices": []}, {"devices": [{"index": 0, "power_w": None}]}, 0.5)
    text = page.text()
    assert 'Hostname="h\\"\\n"' in text and "POWER" not in text and "trainmark_devices{" in text


def test_the_dashboard_has_what_grafana_wants_and_asks_only_for_what_is_told() -> None:
    made = monitoring.dashboard("lab")
    assert {panel["type"] for panel in made["panels"]} == {"timeseries"}
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
    places = [tuple(panel["gridPos"][name] for name in "xy") for panel in made["panels"]]
    assert len(set(places)) == len(places) and all(x + 12 <= 24 for x, _ in places)
    told = {metric.name for metric, _ in metrics._DEVICE.values()} | {
        getattr(metrics, name).name for name in ("_FREE", "_COUNT", "_AGE", "_STEP", "_LOSS", "_WAIT", "_RATE", "_CPU")
    }
    for panel in made["panels"]:
        for target in panel["targets"]:
            for word in target["expr"].replace("{", " ").split():
                if word.startswith(("DCGM_", "trainmark_")):
                    assert word in told, word
    assert json.loads(json.dumps(made)) == made


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool")
def test_promtool_accepts_what_is_written(cli: Cli) -> None:
    (cli.folder / "site.yaml").write_text("hosts: [n1]\n")
    cli("monitor", "prometheus-config", "--site", "site.yaml", "-o", "mon")
    done = subprocess.run(["promtool", "check", "config", "mon/prometheus.yml"], cwd=cli.folder, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (cli.folder / "mon/prometheus.yml").read_text()
    assert "n1:9100" in text and "n1:9400" in text and "job_name: GPU-exporter" in text


@pytest.mark.lab
def test_prometheus_gives_back_the_same_numbers(cli: Cli, exporter: int, tmp_path: Path) -> None:
    """Scraped by the real server, asked back by its own interface; and a run's energy by a query to it."""
    node, server = free_port(), free_port()
    config = monitoring.prometheus(["127.0.0.1"], exporter)
    config["global"]["scrape_interval"] = "1s"
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{node}"]
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    (tmp_path / monitoring.ALERTS).write_text(json.dumps(monitoring.alerts()))
    commands = [
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{node}"],
        [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{server}",
        ],
    ]
    started = [
        subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path) for one in commands
    ]
    try:
        cli("run", "noop:none:nvidia:1:1:1", "--set", "seconds=6", "--set", "steps=60")
        assert asked(server, 'DCGM_FI_DEV_POWER_USAGE{gpu="2"}') == [200.0]
        assert asked(server, 'up{job="node-exporter"}') == [1.0]
        assert asked(server, "count(node_cpu_seconds_total)")[0] > 0
        query = 'label_replace(DCGM_FI_DEV_POWER_USAGE{gpu="0"}, "host", "$1", "Hostname", "(.*)")'
        rows = cli.json(
            "energy", cli.run_id(), "--prometheus", f"http://127.0.0.1:{server}", "--query", query, "--json"
        )
        (meter,) = [one for one in rows if (one["part"], one["over"]) == ("meter", "window")]
        assert meter["joules"] / meter["coverage"] == pytest.approx(100.0 * meter["seconds"], rel=0.01)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def asked(server: int, query: str) -> list[float]:
    """The values of a query, once it has some."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            text = get(f"http://127.0.0.1:{server}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
            found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
            if found:
                return [float(one["value"][1]) for one in found]
        except OSError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"no answer to {query}")
