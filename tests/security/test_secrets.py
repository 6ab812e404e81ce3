"""Secrets in variables and in the words of commands: programs get them, files and pages do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.agent.secrets import looks_secret, masked
from trainmark.errors import UserError
from trainmark.run.planning import load_suite, plan_suite
from trainmark.spec.site import Container, Site
from trainmark.store import provenance, secrets
from trainmark.store.rundir import RunDir
from trainmark.trust import archive

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


SUITE = """
name: own
set: {hf_token: of-the-suite-SECRET}
cases:
  - command: [python3, -c, 'PROGRAM', "--key={api_key}", "{hf_token}", "--lr={lr}"]
    name: own
    batch: 4
    pattern: 'step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)'
    set: {api_key: of-the-case-SECRET, hf_token: x, pin_code: 7, password: 20011345, lr: 0.1, url: x}
"""
PROGRAM = (
    "import json, os, sys; "
    'json.dump([sys.argv[1:], os.environ["TRAINMARK_PARAM_API_KEY"], os.environ["TRAINMARK_PARAM_PASSWORD"]], '
    'open("SEEN", "w")); [print("step", n, "loss", 1 / n) for n in range(1, 4)]; sys.exit(CODE)'
)


@pytest.mark.parametrize("code", ["0", "3"])
def test_parameters_that_are_secrets_are_in_no_file_page_or_bundle(cli: Cli, tmp_path: Path, code: str) -> None:
    suite, seen = tmp_path / "suite.yaml", tmp_path / "seen.json"
    suite.write_text(SUITE.replace("PROGRAM", PROGRAM).replace("SEEN", str(seen)).replace("CODE", code))
    url = "https://me:of-the-url-SECRET@host/x"
    asked = (str(suite), "--set", "api_key=of-the-line-SECRET", "--set", f"url={url}")
    assert "SECRET" not in cli("plan", *asked).stdout + cli("plan", *asked, "--json").stdout
    assert "SECRET" not in cli("explain", "own", "--suite", *asked).stdout
    said = cli("run", *asked, code=None)
    assert json.loads(seen.read_text()) == [
        ["--key=of-the-line-SECRET", "of-the-suite-SECRET", "--lr=0.1"],
        "of-the-line-SECRET",
        "20011345",
    ], "the program gets them"
    assert "4 value(s)" in said.stdout and "SECRET" not in said.stdout + said.stderr
    run = RunDir(cli.runs / cli.run_id())
    assert not kept_in(run.path, "SECRET") and not kept_in(run.path, "20011345")
    assert not list(run.path.rglob("*SECRET*")), "nor in the name of a folder"
    assert "lr" in (run.path / "manifest.json").read_text() and "files-changed" not in cli("report", run.id).stdout
    (run.path / "secrets.json").write_text('{"***1***": "kept-SECRET"}')  # as in a run that was stopped
    page, bundle = tmp_path / "page.html", tmp_path / "run.tmk"
    cli("report", run.id, "--format", "html", "-o", str(page))
    cli("pack", run.id, "-o", str(bundle), "--unsigned")
    archive.unpack(bundle, tmp_path / "packed")
    packed = b"".join(
        str(file).encode() + file.read_bytes() for file in (tmp_path / "packed").rglob("*") if file.is_file()
    )
    for text in (page.read_text(), cli("report", run.id, "--json").stdout):
        assert "SECRET" not in text and "20011345" not in text
    assert b"SECRET" not in packed and b"secrets.json" not in packed and b"hf_token: ***" in packed


def test_a_run_that_was_stopped_goes_on_with_its_secrets(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.replace("PROGRAM", "print(cpu)"))
    site = Site(hosts=["here"], container=Container(image="x", options=["-e", "HF_TOKEN=of-the-site"]))
    # A short one is part of other words by chance.
    plan = plan_suite(load_suite(str(suite)), site, {"api_key": "cpu"}, 1)
    run = RunDir(tmp_path / "run")
    run.path.mkdir()
    told, words = secrets.hide(run, plan, ["run", "--set=api_key=cpu"])
    assert words == ["run", "--set=api_key=***2***"] and told.cases[0].case == plan.cases[0].case
    assert "of-the-site" not in str(told) and (run.path / secrets.NAME).stat().st_mode & 0o777 == 0o600
    assert secrets.whole(run, told).cases == plan.cases and secrets.whole(run, told).site == plan.site
    secrets.forget(run, secrets.known(run), over=True)
    with pytest.raises(UserError, match="name the suite or the command again"):
        secrets.whole(run, told)


def test_another_secret_is_not_another_case(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.replace("PROGRAM", "pass"))
    one, other, third = (
        plan_suite(load_suite(str(suite)), Site(hosts=["here"]), changed, 1).cases[0]
        for changed in ({"api_key": "a"}, {"api_key": "b"}, {"lr": "0.2"})
    )
    assert one.case == other.case and one.fingerprint == other.fingerprint
    assert third.fingerprint != one.fingerprint


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
