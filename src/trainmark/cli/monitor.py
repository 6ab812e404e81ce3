"""`trainmark monitor`: readings of a site's devices and rounds for Prometheus and Grafana."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.errors import OK, UserError
from trainmark.launch import monitoring

EPILOG = """\
examples:
  trainmark monitor start --site cluster.yaml                  an exporter on every host, port 9400
  trainmark monitor status --site cluster.yaml
  trainmark monitor prometheus-config --site cluster.yaml -o monitoring    scrape file, alerts, dashboard
  trainmark monitor unit > /etc/systemd/system/trainmark-exporter.service  to survive a reboot
  trainmark monitor stop --site cluster.yaml
"""
_FAILED = 3


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        dest="what", required=True, metavar="start | stop | status | prometheus-config | unit"
    )
    for name, text in (
        ("start", "start the exporter on every host of the site"),
        ("stop", "stop the exporters of the site"),
        ("status", "say which exporters of the site answer"),
        ("prometheus-config", "write what Prometheus and Grafana need to show the site"),
        ("unit", "print a systemd unit that runs the exporter of this machine"),
    ):
        # The name is too long for options beside it.
        usage = "%(prog)s [--site FILE] [--port PORT] [-o DIR]" if name == "prometheus-config" else None
        verb = verbs.add_parser(name, help=text, usage=usage)
        if name != "unit":
            verb.add_argument("--site", type=Path, metavar="FILE", help="the site (default: this machine)")
        if name in ("start", "status"):
            verb.add_argument("--json", action="store_true", help="print as JSON")
        if name in ("start", "prometheus-config", "unit"):
            verb.add_argument(
                "--port", type=int, default=monitoring.DEVICE_PORT, help="of the exporters (default: 9400)"
            )
        if name in ("start", "unit"):
            verb.add_argument(
                "--watch", action="append", default=[], metavar="DIR", help="where runs lie whose rounds are shown"
            )
        if name == "prometheus-config":
            common.add_folder(verb, "where the files go (default: ./monitoring)", Path("monitoring"))


def call(args: argparse.Namespace) -> int:
    if not 0 < getattr(args, "port", 1) < 65536:
        raise UserError(f"--port: found {args.port}, allowed is 1 to 65535")
    if args.what == "unit":
        import trainmark.agent

        main = Path(trainmark.agent.__file__).with_name("__main__.py")
        folders = [str(Path(folder).resolve()) for folder in args.watch or ["runs"]]
        argv = [sys.executable, "-I", "-S", str(main), "exporter", "0.0.0.0", str(args.port), *folders]  # noqa: S104
        terminal.out(monitoring.unit(argv))
        return OK
    site = common.load_site(args)
    if args.what == "prometheus-config":
        return _write(args, site.name, [host for host in site.hosts if host])
    from trainmark.launch.protocol import launcher_of

    launcher = launcher_of(site)
    watch = getattr(args, "watch", None) or (["runs"] if launcher.this_machine else [])
    found = launcher.monitor(site, args.what, getattr(args, "port", 0), watch)
    rows = [{"host": host, "exporter": _said(one)} for host, one in found.items()]
    if getattr(args, "json", False):
        terminal.json(found)
    else:
        terminal.out(table(rows))
    good = args.what == "stop" or all(one.get("running") and one.get("answers", True) for one in found.values())
    return OK if good else _FAILED


def _said(one: dict[str, object]) -> str:
    if "stopped" in one:
        return "stopped" if one["stopped"] else "was not running"
    if not one.get("running"):
        return f"not running{': ' + str(one['why']) if one.get('why') else ''}"
    return f"port {one['port']}, pid {one['pid']}{'' if one.get('answers') else ', does not answer'}"


def _write(args: argparse.Namespace, site: str, hosts: list[str]) -> int:
    import yaml

    if not hosts:
        raise UserError(f"site `{site}` names no hosts: its launcher chooses them; name them in `hosts:`")
    folder = args.output
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        monitoring.CONFIG: yaml.safe_dump(monitoring.prometheus(hosts, args.port), sort_keys=False),
        monitoring.ALERTS: yaml.safe_dump(monitoring.alerts(), sort_keys=False),
        monitoring.DASHBOARD: json.dumps(monitoring.dashboard(site), indent=2) + "\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
        terminal.line(folder / name)
    return OK
