"""Bundles: packed with the same bytes each time, without secrets, signed, and taken like runs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.trust.forging import members_of, second_opinion
from tests.trust.honest import honest_run, nodes, packed, seal
from trainmark import api, api_trust, extras
from trainmark.cli.main import main
from trainmark.errors import UserError
from trainmark.reasons import reason
from trainmark.store import rundir
from trainmark.store.rundir import RunDir
from trainmark.trust import bundle as bundles
from trainmark.trust import keyless, keys, leaderboard, pack, verify
from trainmark.trust.records import PACKAGES, Signature, remark

SECRETS = {
    "token": "ghp_" + "a1B2" * 9,
    "assigned": "hunter2-and-more",
    "url-password": "alice:pa55word",
    "random": "qX7vR2mZ9kL4wT8pB3nY6cJ1",
}


def test_the_same_run_gives_the_same_bytes(run: RunDir, tmp_path: Path) -> None:
    first, second = (packed(run, tmp_path / name).read_bytes() for name in ("a.tmk", "b.tmk"))
    assert first == second


def test_secrets_are_taken_out_and_listed(run: RunDir, tmp_path: Path) -> None:
    node = nodes(run)[0]
    (node / "rank0.out.log").write_text(
        f"using {SECRETS['token']}\nAPI password={SECRETS['assigned']} ok\nfetch http://{SECRETS['url-password']}@host/x\n"
    )
    (node / "rank0" / "env.log").write_text(f"WANDB={SECRETS['random']}\nOMP_NUM_THREADS=2\n")
    made = packed(run, tmp_path / "x.tmk")
    content = b"".join(members_of(made).values())
    for kind, secret in SECRETS.items():
        assert secret.encode() not in content
        assert f"[removed:{kind}]".encode() in content
    assert b"OMP_NUM_THREADS=2" in content
    found = verify.verify(made)
    assert found.verified
    assert sum(one.reason.arguments["count"] for one in found.findings if one.reason.code == "bytes-removed") == 4


def test_a_file_that_its_agent_did_not_write_so_is_found(run: RunDir, tmp_path: Path) -> None:
    secret = nodes(run)[0] / "rank0.out.log"
    assert verify.verify(packed(run, tmp_path / "a.tmk")).verified
    with (nodes(run)[1] / rundir.EVENTS).open("a") as file:
        file.write("\n")
    secret.write_text(secret.read_text() + "more\n")
    found = verify.verify(packed(run, tmp_path / "b.tmk", sealed=False))
    assert {one.place.rpartition("/")[2] for one in found.faults()} == {"rank0.out.log", "events.jsonl"}
    assert {one.reason.code for one in found.faults()} == {"not-what-agent-wrote"}


def test_what_was_taken_out_is_held_against_the_original(run: RunDir, tmp_path: Path) -> None:
    (nodes(run)[0] / "rank0.out.log").write_text(f"using {SECRETS['token']}\n")
    assert verify.verify(packed(run, tmp_path / "x.tmk")).verified
    assert verify.verify(packed(run, tmp_path / "y.tmk", logs=False)).verified


def test_a_secret_across_the_edge_of_two_pieces_is_taken_out(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.trust.removal._BLOCK", 64)
    log = nodes(run)[0] / "rank0.out.log"
    log.write_text("".join(f"line {number}: {SECRETS['token']}\n" for number in range(50)))
    assert SECRETS["token"].encode() not in b"".join(members_of(packed(run, tmp_path / "x.tmk")).values())


def test_anonymous_takes_out_the_home_folder(run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/eve")
    (nodes(run)[0] / "rank0.out.log").write_text("data in /home/eve/data\n")
    assert b"/home/eve" in b"".join(members_of(packed(run, tmp_path / "a.tmk")).values())
    assert b"/home/eve" not in b"".join(members_of(packed(run, tmp_path / "b.tmk", anonymous=True)).values())


def test_without_logs_it_says_what_cannot_be_checked(run: RunDir, tmp_path: Path) -> None:
    found = verify.verify(packed(run, tmp_path / "x.tmk", logs=False))
    assert found.verified
    left_out = {one.place.rpartition("/")[2] for one in found.findings if one.reason.code == "file-left-out"}
    assert left_out == {"rank0.out.log", "env.log"}


def test_packages_are_listed_as_cyclonedx(bundle: Path) -> None:
    listed = json.loads(members_of(bundle)[PACKAGES])
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    assert listed["components"][0]["purl"] == "pkg:pypi/msgspec@0.0.1"


def test_the_signature_is_an_in_toto_statement_of_what_was_run(bundle: Path, run: RunDir) -> None:
    import base64

    members = members_of(bundle)
    envelope = json.loads(next(content for name, content in members.items() if name.startswith("signatures/")))
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    (made,) = statement["predicate"]["buildDefinition"]["externalParameters"]["runs"]
    assert made["run"] == run.id
    sources = {one["name"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert "sources/resnet50/0/pytorch.py" in sources


def test_several_sign_one_bundle(bundle: Path) -> None:
    keys.create("eve") if "eve" not in {one.name for one in keys.listed()} else None
    bundles.add_signature(bundle, bundle, "eve", "auditor")
    found = verify.verify(bundle)
    assert found.verified
    assert {(one.role, one.name) for one in found.signatures} == {("maker", "maker"), ("auditor", "eve")}


def test_a_key_is_closed_to_others_and_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    before = os.umask(0)
    try:
        made = keys.create("mine")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(made.path).stat().st_mode) == 0o600
    with pytest.raises(UserError, match="already"):
        keys.create("mine")
    Path(made.path).chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        keys.load("mine")


def test_a_key_with_a_passphrase_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys.create("mine", "open sesame")
    assert keys.has_passphrase("mine")
    keys.load("mine", "open sesame")
    for wrong in (None, "wrong"):
        with pytest.raises(UserError):
            keys.load("mine", wrong)


def test_a_public_key_travels_as_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "alice"))
    made = keys.create("default")
    line = keys.public_line("default")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "bob"))
    assert keys.trust("alice", line).fingerprint == made.fingerprint
    assert keys.names() == {made.fingerprint: "alice"}
    with pytest.raises(UserError, match="another key"):
        keys.trust("alice", f"trainmark-ed25519 {'00' * 32} mallory")
    for name in ("../x", "", "a/b"):
        with pytest.raises(UserError):
            keys.trust(name, line)


def test_a_bundle_is_imported_once(bundle: Path, tmp_path: Path, run: RunDir) -> None:
    (first,) = api_trust.unpack(bundle, runs=tmp_path / "mine")
    (again,) = api_trust.unpack(bundle, runs=tmp_path / "mine")
    assert first.path == again.path
    mine = first.report().cases[0].measurements["throughput"]
    assert mine == api.open(run.path).report().cases[0].measurements["throughput"]


def test_commands_of_a_bundle_are_never_run(bundle: Path, tmp_path: Path) -> None:
    """Its files are ours from then on; what they say is somebody else's."""
    before = os.umask(0)
    try:
        (mine,) = api_trust.unpack(bundle, runs=tmp_path / "mine")
    finally:
        os.umask(before)
    assert stat.S_IMODE(mine.folder.path.stat().st_mode) == 0o700
    for act in (mine.resume, mine.stop, lambda: api.diagnose(mine, runs=tmp_path / "mine")):
        with pytest.raises(UserError, match="unpacked from a bundle"):
            act()
    with pytest.raises(UserError, match="no runs here"):
        rundir.find(tmp_path / "mine", None, own=True)
    assert rundir.find(tmp_path / "mine", None).id == mine.id, "it is the newest to look at"
    again = packed(mine.folder, tmp_path / "again.tmk")
    assert not any(rundir.UNPACKED in name for name in members_of(again)) and verify.verify(again).verified


def test_a_bundle_with_faults_is_not_imported(run: RunDir, tmp_path: Path) -> None:
    from trainmark.trust import pack

    pack.pack([run], tmp_path / "x.tmk")
    with pytest.raises(UserError, match="nobody has signed it"):
        api_trust.unpack(tmp_path / "x.tmk", runs=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_bundle_is_opened_and_compared_like_a_run(bundle: Path, tmp_path: Path) -> None:
    other = packed(honest_run(tmp_path / "other", seed=50), tmp_path / "other.tmk")
    assert api.open(bundle).state == "SUCCEEDED"
    (comparison,) = api.compare(str(bundle), str(other)).record
    assert comparison.cases[0].verdict.word in ("equivalent", "inconclusive")


def test_the_command_line_from_key_to_leaderboard(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file, runs = str(tmp_path / "x.tmk"), str(run.path.parent)
    assert main(["pack", run.id, "--runs", runs, "-o", file]) == 2
    assert "trainmark key create" in capsys.readouterr().err
    assert main(["key", "create"]) == 0
    assert main(["pack", run.id, "--runs", runs, "-o", file]) == 0
    assert main(["verify", file]) == 0
    assert "verified" in capsys.readouterr().out
    assert main(["verify", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is True
    assert main(["verify", file, "--cite"]) == 0
    assert "@misc{" in capsys.readouterr().out
    assert main(["report", file]) == 0
    assert "images/s" in capsys.readouterr().out
    assert main(["import", "bundle", file, "--runs", str(tmp_path / "mine")]) == 0
    site = tmp_path / "site"
    assert main(["leaderboard", file, "-o", str(site)]) == 0
    assert {one.name for one in site.iterdir()} == {"index.html", "feed.json", "feed.xml", "bundles", "verified"}
    assert "bundles/x.tmk" in (site / "index.html").read_text()
    assert main(["pack", run.id, "--runs", runs, "-o", str(tmp_path / "u.tmk"), "--unsigned"]) == 0
    assert main(["verify", str(tmp_path / "u.tmk")]) == 4
    assert main(["verify", str(run.path / rundir.MANIFEST)]) == 2
    assert main(["leaderboard", str(tmp_path / "u.tmk"), "-o", str(site)]) == 1


FROZEN = sorted((Path(__file__).parent / "frozen").glob("*.tmk"))


# What their rounds give: one was made up, the other measured by a trainmark whose scoring was another.
SPEEDS = {"schema1": 53.4, "schema1-measured": 2226.4}


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_bundles_of_older_versions_still_verify(path: Path) -> None:
    found = verify.verify(path)
    assert found.verified
    assert found.figures[0]["value"] == pytest.approx(SPEEDS[path.stem], rel=0.05)
    assert second_opinion(path) == 0


def test_errors_of_bundles_are_told_in_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINMARK_LANG", "zh")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "x.tmk").write_bytes(b"no bundle")
    commands = (
        ["verify", str(tmp_path / "x.tmk")],
        ["verify", str(tmp_path / "missing.tmk")],
        ["pack", "last", "-o", str(tmp_path / "x.zip")],
        ["key", "show", "nobody"],
        ["leaderboard", str(tmp_path / "none"), "-o", str(tmp_path / "site")],
        ["key", "create", "a/b"],
    )
    for command in commands:
        assert main(command) == 2
        said = capsys.readouterr().err
        assert any("\u4e00" <= letter <= "\u9fff" for letter in said), said


def test_a_signature_beside_a_bundle_needs_sigstore(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "present", lambda module: module != "sigstore")
    monkeypatch.setattr(keyless, "present", lambda module: module != "sigstore")
    assert main(["key", "sign", str(bundle), "--keyless"]) == 2
    assert "pip install 'trainmark[sigstore]'" in capsys.readouterr().err
    assert not keyless.beside(bundle).exists()
    keyless.beside(bundle).write_text("{}")
    found = verify.verify(bundle)
    assert found.verified and [one.reason.code for one in found.findings] == ["keyless-not-checked"]


def test_a_bundle_that_only_an_identity_signed_is_signed(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who signed is checked by sigstore; what follows from it is here."""
    seal(run)
    made = tmp_path / "x.tmk"
    pack.pack([run], made)
    signed = Signature(keyless.ROLE, "https://accounts.example", True, "alice@example.org")
    said = remark(reason("keyless-signed", name="alice@example.org", issuer="https://accounts.example"))
    monkeypatch.setattr(keyless, "look", lambda _bundle: ([signed], [said]))
    found = verify.verify(made)
    assert found.verified and [one.reason.code for one in found.findings] == ["keyless-signed"]
    leaderboard.write([made], tmp_path / "site")
    assert "signed by alice@example.org, says https://accounts.example" in (tmp_path / "site/index.html").read_text()
    (item,) = json.loads((tmp_path / "site/feed.json").read_text())["items"]
    assert not item["_trainmark"]["trusted"], "anybody has an identity at some provider"


def test_a_key_that_is_trusted_goes_before_an_identity(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = Signature(keyless.ROLE, "https://accounts.example", True, "mallory@example.org")
    monkeypatch.setattr(keyless, "look", lambda _bundle: ([signed], []))
    leaderboard.write([bundle], tmp_path / "site")
    (item,) = json.loads((tmp_path / "site/feed.json").read_text())["items"]
    assert item["_trainmark"]["trusted"] and item["_trainmark"]["maker"] == "maker"


def test_a_signature_without_a_key_has_no_role(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "sign", str(bundle), "--keyless", "--role", "maker"]) == 2
    assert "leave out --key, --role and -o" in capsys.readouterr().err
