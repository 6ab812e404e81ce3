"""What is wrong is said before any job is made: in one message, with the right exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.launch.modelarts.conftest import site_path
from trainmark.emulate.modelarts.server import Emulator
from trainmark.emulate.modelarts.site_file import BUCKET


@pytest.fixture
def suite(make_workload: Callable[..., Path], make_suite: Callable[..., Path]) -> str:
    make_workload("")
    return str(make_suite("  - 'thing:none:cpu:2:2:1'"))


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"pool": "emulated-pool"}, 2, "in a pool or on a public flavor, not in both"),
        ({"flavor": None}, 2, "name a public flavor"),
        ({"image": "swr/x:1"}, 2, "an engine or an image"),
        ({"output": "trainmark/output"}, 2, "allowed is obs://BUCKET/FOLDER/"),
        ({"endpoints": {"obs": "ftp://x"}}, 2, "endpoints"),
        ({"prepare": {"files": ["/no/such/folder"]}}, 2, "is not there, or cannot be read"),
        ({"nodes": 0}, 2, "allowed is 1 and more"),
        ({"no_such_option": 1}, 2, "no_such_option"),
        ({"flavor": "no.such"}, 3, "there is no no.such"),
        ({"code": "obs://nobucket/code/"}, 3, "no such bucket"),
        ({"nodes": 99}, 3, "at most 4 nodes"),
        ({"credentials": "/no/such/file"}, 3, "No such file"),
    ],
)
def test_a_wrong_site_makes_no_job(
    emulator: Emulator, cli: Cli, suite: str, changes: dict[str, Any], code: int, said: str
) -> None:
    site = site_path(emulator, **changes)
    done = cli("run", suite, "--site", str(site), code=code)
    assert said in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert emulator.jobs.all() == []
    assert [one.key for one in emulator.objects.below(BUCKET, "")] == []


def test_devices_that_the_flavor_does_not_have(
    emulator: Emulator, cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    """The emulated flavors have processors alone, and say so."""
    make_workload("")
    for vendor in ("ascend", "nvidia"):
        suite = make_suite(f"  - 'thing:none:{vendor}:1:2:1'")
        done = cli("run", str(suite), "--site", str(site_path(emulator)), code=3)
        said = " ".join(done.stderr.split())
        assert vendor in said and "name a flavor with such cards" in said
    assert emulator.jobs.all() == []


def test_a_wrong_key_is_an_error_of_the_site(emulator: Emulator, cli: Cli, suite: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(f'{{"access_key": "{emulator.keys.access_key}", "secret_key": "wrong"}}')
    keys.chmod(0o600)
    site = site_path(emulator, credentials=str(keys))
    done = cli("run", suite, "--site", str(site), code=3)
    assert "the service refuses the keys" in " ".join(done.stderr.split())
    # Also where nobody looked before.
    assert "refuses the keys" in " ".join(cli("run", suite, "--site", str(site), "--no-check", code=1).stdout.split())
    assert emulator.jobs.all() == []


def test_a_file_of_keys_that_others_can_read_is_not_read(
    emulator: Emulator, cli: Cli, suite: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    keys.chmod(0o644)
    done = cli("run", suite, "--site", str(site_path(emulator, credentials=str(keys))), code=3)
    assert "chmod 600" in " ".join(done.stderr.split())


def test_keys_may_come_from_the_environment(emulator: Emulator, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    site = str(site_path(emulator, credentials="env"))
    monkeypatch.delenv("HUAWEICLOUD_SDK_AK", raising=False)
    assert "HUAWEICLOUD_SDK_AK" in cli("doctor", "--site", site, code=3).stdout
    monkeypatch.setenv("HUAWEICLOUD_SDK_AK", emulator.keys.access_key)
    monkeypatch.setenv("HUAWEICLOUD_SDK_SK", emulator.keys.secret_key)
    out = cli("doctor", "--site", site).stdout
    assert "emulated.2card" in out and emulator.keys.secret_key not in out and emulator.keys.access_key not in out


def test_a_project_that_is_not_named_is_asked_for(emulator: Emulator, cli: Cli) -> None:
    cli("doctor", "--site", str(site_path(emulator, project=None, region="emulated")))


def test_data_without_its_folders_is_refused(emulator: Emulator, cli: Cli, tmp_path: Path) -> None:
    emulator.objects.put(BUCKET, "data/val/x", b"x")
    site = site_path(emulator, top={"data": {"imagenet": f"obs://{BUCKET}/data/"}})
    done = cli("doctor", "--site", str(site), code=3)
    assert "has no train/" in " ".join(done.stdout.split())
    emulator.objects.put(BUCKET, "data/train/x", b"x")
    cli("doctor", "--site", str(site))


def test_a_dry_run_shows_the_job_and_makes_none(emulator: Emulator, cli: Cli, suite: str) -> None:
    out = cli("plan", suite, "--site", str(site_path(emulator))).stdout
    assert '"flavor_id": "emulated.2card"' in out and "trainmark_plan" in out
    assert emulator.jobs.all() == []


def test_an_endpoint_that_does_not_answer_is_named(emulator: Emulator, cli: Cli, suite: str) -> None:
    dead = {"modelarts": "http://127.0.0.1:9", "obs": emulator.url, "iam": emulator.url}
    site = site_path(emulator, endpoints=dead, retry_seconds=1)
    assert "no answer" in " ".join(cli("run", suite, "--site", str(site), code=3).stderr.split())
