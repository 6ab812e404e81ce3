"""Files and words that nobody should have written: one clear refusal within the stated limits, and at once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.security import fuzz
from trainmark.errors import UserError
from trainmark.launch.sites import load_site
from trainmark.plan import build
from trainmark.spec import inputs, suite_cases, yamlfile
from trainmark.spec import suite as suites
from trainmark.spec.site import Site


def refused(file: Path) -> str:
    with pytest.raises(UserError) as caught:
        yamlfile.read(file)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"seed: 2001-13-45\n", "line 1: found '2001-13-45'"),
        (b"a: 1\nseed: " + b"9" * 5000, "line 2: found '9999"),
        (b"seed: 0x" + b"f" * 5000, "which is no int that can be used"),
        (b"seed: !!int x\n", "found 'x', which is no int"),
        (b"[" * 25_000, "nested more than 64 levels"),
        (b"a: " + b"{b: " * 25_000, "nested more than 64 levels"),
        (b"- " * 25_000, "nested more than 64 levels"),
        (b"a: " + b"x" * (inputs.MOST_BYTES + 1), "larger than 8 MiB"),
    ],
    ids=["date", "digits", "hexadecimal", "tag", "lists", "mappings", "blocks", "large"],
)
def test_yaml_that_cannot_be_meant(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(text)
    assert said in refused(file)


def test_what_is_no_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_PIPE_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "neither a file nor a pipe" in refused(Path("/dev/zero"))
    assert "nothing more came through this pipe" in refused(tmp_path / "pipe.yaml")
    assert "NUL" in refused(Path("a\0b.yaml"))
    assert "Is a directory" in refused(tmp_path)


def test_what_comes_through_a_pipe_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a: 1\n")
    os.close(writing)
    assert yamlfile.read(Path(f"/dev/fd/{reading}")).content == {"a": 1}
    os.close(reading)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: ['a[0-99999][0-99999]']", "more than 100000"),
        ("hosts: ['a[" + "1" * 5000 + "]']", "allowed is a name, or ranges"),
        ("hosts: ['a" + "[0-1]" * 40 + "']", "allowed is a name, or ranges"),
        ("python: ~nosuch/x", "there is no such user"),
        ('hosts_file: "a\\0b"', "NUL"),
        ("hosts_file: /dev/zero", "neither a file nor a pipe"),
    ],
)
def test_sites_that_cannot_be_meant(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(text + "\n")
    with pytest.raises(UserError, match=said):
        load_site(file)


def test_many_hosts_are_looked_at_once(tmp_path: Path) -> None:
    """Comparing each with every other would take minutes for so many."""
    file = tmp_path / "site.yaml"
    file.write_text("launcher: ssh\nhosts:\n" + "".join(f"- host{number}\n" for number in range(30_000)))
    assert len(load_site(file).hosts) == 30_000
    file.write_text("launcher: ssh\nhosts:\n" + "".join(f"- host{number % 20_000}\n" for number in range(30_000)))
    with pytest.raises(UserError, match="and 9995 more named twice"):
        load_site(file)


def test_cases_times_ranks_are_counted_before_they_are_laid_out(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("cases:\n" + "".join(f"- noop:none:cpu:1000:100:1@steps={number + 1}\n" for number in range(199)))
    loaded = suites.load(file)
    site = Site(hosts=[f"h{number}" for number in range(1000)])
    cases = suite_cases.expand(loaded, site, {})
    with pytest.raises(UserError, match="19900000 ranks in all, allowed are 200000"):
        build.build("large", "closed", 0, cases, site, build.Places("python", "/probe"), 1)


def test_the_command_line_answers_with_two(cli: Cli) -> None:
    (cli.folder / "deep.yaml").write_bytes(b"[" * 25_000)
    for words in (["run", "deep.yaml"], ["run", "/dev/zero"], ["run", "quick", "--site", "/dev/zero"]):
        done = cli(*words, code=2)
        assert "Traceback" not in done.stderr and not cli.runs.exists()


@pytest.mark.parametrize("seconds", [3.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_some_seconds_of_fuzzing(tmp_path: Path, seconds: float) -> None:
    """`make fuzz` does far more of it."""
    with tempfile.TemporaryDirectory(dir=fuzz.MEMORY if fuzz.MEMORY.is_dir() else None) as folder:
        seen = fuzz.run(100_000, seconds, os.getpid(), Path(folder))
    assert seen["refused"] and seen["accepted"], tmp_path
