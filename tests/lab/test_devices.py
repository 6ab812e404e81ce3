"""Devices and exporters of hosts over ssh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from tests.conftest import Cli

pytestmark = pytest.mark.lab


def test_a_device_that_no_host_has_is_told_before_anything_starts(
    cli: Cli, hosts: Lab, site_file: Callable[..., Path]
) -> None:
    done = cli("run", "noop:none:ascend:2:1:1", "--site", str(site_file()), code=3)
    said = " ".join((done.stdout + done.stderr).split())
    assert said.count("no ascend device was found") == 2 and all(host in said for host in hosts.nodes)
    assert not (cli.folder / "runs").exists()


def test_an_exporter_on_every_host(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    where = str(site_file())
    try:
        started = cli.json("monitor", "start", "--site", where, "--json")
        assert set(started) == set(hosts.nodes) and all(one["answers"] for one in started.values())
        again = cli.json("monitor", "status", "--site", where, "--json")
        assert {host: one["pid"] for host, one in again.items()} == {host: one["pid"] for host, one in started.items()}
    finally:
        assert cli("monitor", "stop", "--site", where).stdout.count("stopped") == 2
    assert cli("monitor", "status", "--site", where, code=3).stdout.count("not running") == 2
