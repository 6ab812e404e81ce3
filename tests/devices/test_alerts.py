"""The alerts, judged by Prometheus' own programs: rules on made-up series, and a server that fires them."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli
from tests.devices.test_monitor import free_port
from trainmark.launch import monitoring

_AT = 'instance="n1:9400",Hostname="n1",vendor="nvidia"'
_ONE = f'{_AT},gpu="2",device="nvidia2"'


def rule(name: str) -> dict[str, Any]:
    (found,) = [one for one in monitoring.alerts()["groups"][0]["rules"] if one["alert"] == name]
    return found


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool")
@pytest.mark.parametrize(
    ("name", "series", "before", "broken"),
    [
        ("DeviceLost", f"trainmark_devices{{{_AT}}}", "4", "3"),
        ("DeviceToolHangs", f"trainmark_devices_age_seconds{{{_AT}}}", "0.4", "31"),
        ("DeviceSlowed", f"trainmark_device_slowed{{{_ONE}}}", "0", "1"),
        ("DeviceMemoryErrors", f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{_ONE}}}", "2", "3"),
        ("DeviceError", f"DCGM_FI_DEV_XID_ERRORS{{{_ONE}}}", "0", "79"),
        ("DeviceUnhealthy", f"trainmark_device_healthy{{{_ONE}}}", "1", "0"),
        ("ExporterSilent", 'up{job="GPU-exporter",instance="n1:9400"}', "1", "0"),
    ],
)
def test_each_alert_fires_when_it_should_and_not_before(
    tmp_path: Path, name: str, series: str, before: str, broken: str
) -> None:
    """Ten minutes of good values, then five of bad ones."""
    device = "nvidia2" if 'device="' in series else ""
    text = rule(name)["annotations"]["summary"]
    summary = text.replace("{{ $labels.instance }}", "n1:9400").replace("{{ $labels.device }}", device)
    labels = dict(pair.split("=") for pair in series.partition("{")[2].rstrip("}").replace('"', "").split(","))
    fired = [{"exp_labels": {**labels, "severity": "warning"}, "exp_annotations": {"summary": summary}}]
    cases = [("10m", []), ("13m", fired)]
    test = {
        "rule_files": [monitoring.ALERTS],
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": series, "values": f"{before}x40 {broken}x20"}],
                "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": want} for at, want in cases],
            }
        ],
    }
    (tmp_path / monitoring.ALERTS).write_text(yaml.safe_dump(monitoring.alerts()))
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lab
def test_a_server_fires_for_a_lost_a_slowed_and_a_faulty_device(
    cli: Cli, fake_nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the library through the exporter into Debian's Prometheus; only the times of waiting are shorter."""
    state = tmp_path / "state"
    state.write_text("")
    monkeypatch.setenv("FAKE_NVML_STATE", str(state))
    exporter, server = free_port(), free_port()
    cli("monitor", "start", "--port", str(exporter))
    config, rules = monitoring.prometheus(["127.0.0.1"], exporter), monitoring.alerts()
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for one in rules["groups"][0]["rules"]:
        one["for"] = "1s" if one["for"] != "0m" else "0s"
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    (tmp_path / monitoring.ALERTS).write_text(json.dumps(rules))
    command = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    command.append(f"--web.listen-address=127.0.0.1:{server}")
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        # The library's device 3 is held down from the beginning.
        assert fired(server, {"DeviceSlowed"})["DeviceSlowed"] == {"nvidia3"}
        state.write_text("lost 1\necc 2\n")
        found = fired(server, {"DeviceLost", "DeviceMemoryErrors"})
        assert found["DeviceMemoryErrors"] == {"nvidia2"} and found["DeviceLost"] == {""}
    finally:
        started.terminate()
        started.wait(30)
        cli("monitor", "stop")


def fired(server: int, wanted: set[str]) -> dict[str, set[str]]:
    """Alert → devices, once all that are wanted fire."""
    deadline, found = time.monotonic() + 60, {}
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server}/api/v1/alerts", timeout=10) as reply:
                alerts = json.load(reply)["data"]["alerts"]
        except OSError:
            alerts = []
        found = {}
        for one in alerts:
            if one["state"] == "firing":
                found.setdefault(one["labels"]["alertname"], set()).add(one["labels"].get("device", ""))
        if wanted <= set(found):
            return found
        time.sleep(0.3)
    raise AssertionError(f"only {found} fired")
