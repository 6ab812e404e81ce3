"""Secrets in variables and in the words of commands: programs get them, files and pages do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.agent.secrets import looks_secret, masked
from trainmark.store import provenance
from trainmark.store.rundir import RunDir

SECRETS = ("hunter2-pw", "ghp_abcdefghij0123456789", "hf_abcdefghij0123456789", "s3cr3t-key")


def kept_in(folder: Path, text: str) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return [str(file.relative_to(folder)) for file in files if text.encode() in file.read_bytes()]


def test_a_command_gets_what_nothing_keeps(cli: Cli, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    program = (
        f"import json, sys; json.dump(sys.argv[1:], open({str(seen)!r}, 'w')); print('step 1 loss 0.5 {{}}'.format(1))"
    )
    words = [
        "--password=hunter2-pw",
        "--token",
        SECRETS[1],
        f"HF_TOKEN={SECRETS[2]}",
        "--api-key",
        "s3cr3t-key",
        "--lr=0.1",
    ]
    exec_ = ("exec", "--name", "own", "--pattern", r"step (?P<step>\d+) loss (?P<loss>\S+)", "--")
    cli(*exec_, "/usr/bin/python3", "-c", program, *words, code=None)
    assert json.loads(seen.read_text()) == words, "the program gets them"
    run = RunDir(cli.runs / cli.run_id())
    assert "***" in (run.path / "manifest.json").read_text() and "--lr=0.1" in (run.path / "manifest.json").read_text()
    page = tmp_path / "page.html"
    cli("report", run.id, "--format", "html", "-o", str(page))
    for secret in SECRETS:
        left = kept_in(run.path, secret)
        assert left in ([], ["secrets.json"]) and secret not in page.read_text()
        assert secret not in cli("report", run.id, "--json", code=None).stdout
    if (run.path / "secrets.json").exists():
        assert (run.path / "secrets.json").stat().st_mode & 0o777 == 0o600
        seen.unlink()
        cli("resume", run.id, code=None)
    assert "look like secrets" in (run.path / "run.log").read_text()


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("SLURM_JWT", "x", True), ("DB_PASS", "x", True), ("PGPASS", "x", True), ("MYSQL_PWD", "x", True),
        ("X", "DefaultEndpointsProtocol=https;AccountKey=abc;", True), ("X", "postgres://me:pw@db/x", True),
        ("PWD", "/root", False), ("OMP_NUM_THREADS", "4", False), ("MONKEY", "banana", False),
        ("COMPASS", "north", False),
        ("URL", "https://host:443/x", False), ("TOKENIZERS_PARALLELISM", "false", True),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret(name: str, value: str, secret: bool) -> None:
    assert looks_secret(name, value) is secret


def test_words_that_only_look_alike_are_kept() -> None:
    words = "train.py --max-tokens=512 --tokenizer gpt2 --pad-token <pad> --keys a --lr=0.1 a=b max_tokens=3 --seed 3"
    known: dict[str, str] = {}
    assert masked(words.split(), known) == words.split() and known == {}
    assert masked(["--hf-token", "x", "api_key=y", "--wandb.api-key=z"], known) == [
        "--hf-token",
        "***1***",
        "api_key=***2***",
        "--wandb.api-key=***3***",
    ]


def test_a_token_of_slurm_is_in_no_file(monkeypatch: pytest.MonkeyPatch, make_workload: Callable[..., Path]) -> None:
    del make_workload
    monkeypatch.setenv("SLURM_JWT", "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    found = provenance.collect(None)["environment"]
    assert found["SLURM_JWT"] is None and found["SLURM_JOB_ID"] == "12"
