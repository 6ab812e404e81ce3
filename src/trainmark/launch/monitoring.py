"""What Prometheus and Grafana need to show a site: scrape file, alerts and a dashboard. Pure.

The names of the jobs and their ports are those that AAH's users have: `node-exporter` and `GPU-exporter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NODE_PORT, DEVICE_PORT = 9100, 9400
CONFIG, ALERTS, DASHBOARD = "prometheus.yml", "trainmark-alerts.yml", "trainmark-dashboard.json"
_DASHBOARD_SCHEMA = 39  # of Grafana 10 and later, which read it and older ones
_HEIGHT, _WIDTH = 8, 12


def prometheus(hosts: Sequence[str], port: int = DEVICE_PORT) -> dict[str, Any]:
    """A whole configuration: every host's node exporter (Debian's `prometheus-node-exporter`) and ours."""

    def job(name: str, at: int) -> dict[str, Any]:
        return {"job_name": name, "static_configs": [{"targets": [f"{host}:{at}" for host in hosts]}]}

    return {
        "global": {"scrape_interval": "5s", "evaluation_interval": "15s"},
        "rule_files": [ALERTS],
        "scrape_configs": [job("node-exporter", NODE_PORT), job("GPU-exporter", port)],
    }


def alerts() -> dict[str, Any]:
    """What somebody should look at: a device that is gone, held down or faulty; an exporter that is silent."""
    memory_errors = "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[10m]) > 0"
    rules = [
        _alert("DeviceLost", "trainmark_devices < max_over_time(trainmark_devices[1h])", "1m", "a device is gone"),
        _alert("DeviceToolHangs", "trainmark_devices_age_seconds > 30", "1m", "devices have not been read for 30 s"),
        _alert("DeviceSlowed", "trainmark_device_slowed == 1", "2m", "a device is held down by heat or power"),
        _alert("DeviceMemoryErrors", memory_errors, "0m", "uncorrected memory errors"),
        _alert("DeviceError", "DCGM_FI_DEV_XID_ERRORS > 0", "0m", "the driver told of an error (Xid)"),
        _alert("DeviceUnhealthy", "trainmark_device_healthy == 0", "1m", "the vendor's tool calls a device unhealthy"),
        _alert("ExporterSilent", 'up{job=~"GPU-exporter|node-exporter"} == 0', "2m", "an exporter does not answer"),
    ]
    return {"groups": [{"name": "trainmark", "rules": rules}]}


def _alert(name: str, expression: str, hold: str, summary: str) -> dict[str, Any]:
    # Of what has no such label, Prometheus leaves the place empty.
    where = "{{ $labels.instance }} {{ $labels.device }}"
    return {
        "alert": name,
        "expr": expression,
        "for": hold,
        "labels": {"severity": "warning"},
        "annotations": {"summary": f"{where}: {summary}"},
    }


# title, expression, unit of Grafana, legend
_PANELS = (
    ("Device utilisation", "DCGM_FI_DEV_GPU_UTIL{%s}", "percent", "{{Hostname}} {{gpu}}"),
    ("Device memory in use", "DCGM_FI_DEV_FB_USED{%s}", "mbytes", "{{Hostname}} {{gpu}}"),
    ("Device power", "DCGM_FI_DEV_POWER_USAGE{%s}", "watt", "{{Hostname}} {{gpu}}"),
    ("Device temperature", "DCGM_FI_DEV_GPU_TEMP{%s}", "celsius", "{{Hostname}} {{gpu}}"),
    ("Held down by heat or power", "trainmark_device_slowed{%s}", "short", "{{Hostname}} {{gpu}}"),
    ("Device links", "trainmark_device_link_tx{%s} + trainmark_device_link_rx{%s}", "Bps", "{{Hostname}} {{gpu}}"),
    ("Device RoCE ports", "trainmark_device_roce_tx{%s} + trainmark_device_roce_rx{%s}", "Bps", "{{Hostname}} {{gpu}}"),
    ("Throughput", "trainmark_node_throughput{%s}", "short", "{{case}} {{Hostname}}"),
    ("Loss", "trainmark_rank_loss{%s}", "short", "{{case}} {{rank}}"),
    ("Steps", "trainmark_rank_step{%s}", "short", "{{case}} {{rank}}"),
    ("Waiting for data", "trainmark_rank_data_wait_seconds{%s}", "s", "{{case}} {{rank}}"),
    (
        "Processors in use",
        '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m]))',
        "percentunit",
        "{{instance}}",
    ),
    (
        "Memory in use",
        "node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes",
        "bytes",
        "{{instance}}",
    ),
)


def dashboard(site: str) -> dict[str, Any]:
    """A dashboard as Grafana imports it; it asks for the data source when it is imported."""
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    panels = []
    for index, (title, expression, unit, legend) in enumerate(_PANELS):
        place = {"h": _HEIGHT, "w": _WIDTH, "x": _WIDTH * (index % 2), "y": _HEIGHT * (index // 2)}
        panels.append(
            {
                "id": index + 1,
                "type": "timeseries",
                "title": title,
                "datasource": source,
                "gridPos": place,
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "options": {
                    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                    "tooltip": {"mode": "multi", "sort": "desc"},
                },
                "targets": [
                    {
                        "refId": "A",
                        "datasource": source,
                        "expr": expression.replace("%s", 'Hostname=~"$host"'),
                        "legendFormat": legend,
                    }
                ],
            }
        )
    hosts = {
        "name": "host",
        "type": "query",
        "datasource": source,
        "query": "label_values(trainmark_exporter_cpu_seconds_total, Hostname)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }
    prompt = {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}
    return {
        "__inputs": [{**prompt, "description": "", "pluginName": "Prometheus"}],
        "uid": f"trainmark-{site}"[:40],
        "title": f"trainmark: {site}",
        "schemaVersion": _DASHBOARD_SCHEMA,
        "tags": ["trainmark"],
        "time": {"from": "now-30m", "to": "now"},
        "refresh": "5s",
        "templating": {"list": [hosts]},
        "panels": panels,
    }


def unit(command: Sequence[str]) -> str:
    """A systemd unit that runs the exporter, also after a reboot."""
    words = " ".join(f'"{word}"' if " " in word else word for word in command)
    return (
        "[Unit]\nDescription=Readings of devices and rounds for Prometheus (trainmark)\nAfter=network.target\n\n"
        f"[Service]\nExecStart={words}\nRestart=on-failure\nNice=10\n\n[Install]\nWantedBy=multi-user.target\n"
    )
