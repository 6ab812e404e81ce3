"""Whoever changes a bundle after it was made is found out, by either verifier. Each forgery is made for real."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.trust.forging import (
    Members,
    codes,
    listed_anew,
    members_of,
    provenance_of,
    second_opinion,
    signed_by,
    write_members,
)
from tests.trust.honest import honest_run, packed
from trainmark.cli.main import main
from trainmark.store.rundir import RunDir
from trainmark.trust import archive, keys, statement, verify
from trainmark.trust.archive import NotABundle
from trainmark.trust.records import FIGURES, MANIFEST, PACKAGES, BundleManifest

KINDS = {
    "manifest": "/manifest.json",
    "journal": "/journal.jsonl",
    "events": "/events.jsonl",
    "samples": "/samples.jsonl",
    "result": "/result.json",
    "facts": "/facts.json",
    "log": ".out.log",
    "variables": "/env.log",
    "figures": FIGURES,
    "packages": PACKAGES,
    "source": "/pytorch.py",
    "series": "/series.jsonl",
    "list of files": MANIFEST,
    "signature": "signatures/",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_byte_in_any_kind_of_file_is_found(bundle: Path, kind: str) -> None:
    members = members_of(bundle)
    name = next(name for name in members if KINDS[kind] in name)
    content = bytearray(members[name])
    content[len(content) // 2] ^= 1
    forged = write_members(bundle.with_name("forged.tmk"), {**members, name: bytes(content)})
    try:
        assert codes(forged)
    except NotABundle:
        pass  # no longer JSON
    assert second_opinion(forged) in (2, 4)


def test_the_honest_bundle_is_good(bundle: Path) -> None:
    found = verify.verify(bundle)
    assert found.verified
    assert found.findings == []
    assert found.checks["measurements"] > 20
    assert second_opinion(bundle) == 0


def test_an_edited_figure_signed_by_another_key_is_found(bundle: Path) -> None:
    members = members_of(bundle)
    figures = json.loads(members[FIGURES])
    figures["reports"][0]["cases"][0]["measurements"]["throughput"]["value"] *= 1.05
    forged = signed_by(listed_anew({**members, FIGURES: msgspec.json.encode(figures)}), "forger")
    assert codes(write_members(bundle, forged)) == {"figure-differs"}


def test_a_signature_of_another_bundle_is_found(bundle: Path, tmp_path: Path) -> None:
    other = members_of(packed(honest_run(tmp_path / "other", seed=99), tmp_path / "other.tmk"))
    members = {name: content for name, content in members_of(bundle).items() if not name.startswith("signatures/")}
    stolen = {name: content for name, content in other.items() if name.startswith("signatures/")}
    forged = write_members(bundle, {**members, **stolen})
    assert "signature-wrong" in codes(forged)
    assert second_opinion(forged) == 4


def test_a_bundle_that_nobody_signed_is_not_verified(run: RunDir, tmp_path: Path) -> None:
    from trainmark.trust import pack

    pack.pack([run], tmp_path / "x.tmk")
    assert codes(tmp_path / "x.tmk") == {"not-signed"}


def test_a_key_that_nobody_trusts_is_said(bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    found = verify.verify(bundle)
    assert found.verified
    assert [one.reason.code for one in found.findings] == ["signer-unknown"]


def test_a_file_that_is_not_listed_or_not_there_is_found(bundle: Path) -> None:
    members = members_of(bundle)
    assert codes(write_members(bundle, {**members, "runs/more.json": b"{}"})) == {"file-not-listed"}
    name = next(name for name in members if name.endswith("rank0.out.log"))
    del members[name]
    assert codes(write_members(bundle, members)) == {"file-missing"}


def test_events_that_were_left_out_are_missed(bundle: Path) -> None:
    members = members_of(bundle)
    name = next(name for name in members if name.endswith("/events.jsonl"))
    old = msgspec.json.decode(members[MANIFEST], type=BundleManifest)
    files = [msgspec.structs.replace(one, left_out=one.path == name) for one in old.files]
    del members[name]
    members[MANIFEST] = archive.canonical(msgspec.structs.replace(old, files=files))
    forged = write_members(bundle, signed_by(members, "forger"))
    assert codes(forged) == {"left-out-no-log"}
    assert second_opinion(forged) == 4


def test_more_changed_than_was_said_to_be_removed_is_found(bundle: Path) -> None:
    members = members_of(bundle)
    content = msgspec.json.decode(members[MANIFEST])
    for entry in content["files"]:
        if entry["path"].endswith("env.log"):
            entry["removed"] = [{"offset": 0, "length": 5, "kind": "token"}]
            entry["original"] = {"size": entry["size"], "sha256": entry["sha256"]}
    members[MANIFEST] = archive.canonical(content)
    assert "removal-wrong" in codes(write_members(bundle, signed_by(members, "forger")))


# -- statements, keys and lists that do not agree with each other


def resigned(members: Members, change: Callable[[dict[str, Any]], None], key: str = "forger") -> Members:
    """Signed by a key of the forger's, with a statement that was changed."""
    if key not in {one.name for one in keys.listed()}:
        keys.create(key)
    left = {path: content for path, content in members.items() if not path.startswith("signatures/")}
    predicate = provenance_of(members)
    change(predicate)
    path, content = statement.sign(keys.load(key), "maker", members[MANIFEST], predicate)
    return {MANIFEST: left.pop(MANIFEST), path: content, **left}


def test_a_statement_of_other_sources_is_found(bundle: Path) -> None:
    def change(predicate: dict[str, Any]) -> None:
        predicate["buildDefinition"]["resolvedDependencies"][0]["digest"]["sha256"] = "0" * 64

    forged = write_members(bundle, resigned(members_of(bundle), change))
    assert codes(forged) == {"statement-differs"}
    assert second_opinion(forged) == 4


def test_a_statement_of_another_case_is_found(bundle: Path) -> None:
    def change(predicate: dict[str, Any]) -> None:
        made = predicate["buildDefinition"]["externalParameters"]["runs"][0]["cases"][0]
        made["case"] = "resnet50:pytorch:nvidia:1:2:3"

    assert codes(write_members(bundle, resigned(members_of(bundle), change))) == {"statement-differs"}


def test_a_statement_of_another_root_is_found(bundle: Path) -> None:
    def change(predicate: dict[str, Any]) -> None:
        predicate["buildDefinition"]["internalParameters"]["root"] = "0" * 64

    forged = write_members(bundle, resigned(members_of(bundle), change))
    assert codes(forged) == {"statement-differs"}
    assert second_opinion(forged) == 4


def test_a_trusted_key_does_not_sign_what_it_did_not_see(bundle: Path, tmp_path: Path) -> None:
    """The signature is right and its key is trusted; the forger put it beside another bundle's list, with that list's
    digest as its subject."""
    other = members_of(packed(honest_run(tmp_path / "other", seed=99), tmp_path / "other.tmk"))
    name, content = next((name, one) for name, one in other.items() if name.startswith("signatures/"))
    envelope = json.loads(content)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    members = {one: content for one, content in members_of(bundle).items() if not one.startswith("signatures/")}
    payload["subject"][0]["digest"]["sha256"] = hashlib.sha256(members[MANIFEST]).hexdigest()
    envelope["payload"] = base64.b64encode(archive.canonical(payload)).decode()
    forged = write_members(bundle, {**members, name: msgspec.json.encode(envelope)})
    assert "signature-wrong" in codes(forged)
    assert second_opinion(forged) == 4


def test_an_auditor_is_not_the_maker(bundle: Path) -> None:
    members = {name: one for name, one in members_of(bundle).items() if not name.startswith("signatures/")}
    name, content = statement.sign(keys.load("maker"), "auditor", members[MANIFEST])
    forged = write_members(bundle, {**members, name: content})
    assert codes(forged) == {"maker-not-signed"}
    assert second_opinion(forged) == 4


def test_one_key_twice_in_json_is_found(bundle: Path) -> None:
    """Some programs take the first of two values, others the last."""
    members = members_of(bundle)
    listed = members[MANIFEST].replace(b'"schema":1,', b'"schema":1,"scorer":2,', 1)
    forged = write_members(bundle, signed_by({**members, MANIFEST: listed}, "forger"))
    assert "manifest-spelled-otherwise" in codes(forged)
    assert second_opinion(forged) == 2
    name = next(name for name in members if name.startswith("signatures/"))
    twice = members[name].replace(b'"payloadType":', b'"payloadType":"application/json","payloadType":', 1)
    forged = write_members(bundle, {**members, name: twice})
    assert "signature-wrong" in codes(forged)
    assert second_opinion(forged) == 4
    figures = members[FIGURES].replace(b'"scorer":', b'"scorer":1,"scorer":', 1)
    forged = write_members(bundle, signed_by(listed_anew({**members, FIGURES: figures}), "forger"))
    assert codes(forged) == {"figures-missing"}


def test_an_older_schema_gets_nobody_around_a_check(bundle: Path) -> None:
    members = members_of(bundle)
    for schema in (b"0", b"-1"):
        listed = members[MANIFEST].replace(b'"schema":1', b'"schema":' + schema, 1)
        forged = write_members(bundle, {**members, MANIFEST: listed})
        with pytest.raises(NotABundle, match="no schema"):
            verify.verify(forged)
        assert second_opinion(forged) == 2


def test_figures_of_an_older_scorer_are_not_believed(bundle: Path) -> None:
    """Those of an older version are not compared. The list of files tells the version, too."""
    members = members_of(bundle)
    figures = json.loads(members[FIGURES])
    figures["scorer"] = 1
    forged = signed_by(listed_anew({**members, FIGURES: msgspec.json.encode(figures)}), "forger")
    assert codes(write_members(bundle, forged)) == {"figures-missing"}


@pytest.mark.parametrize("change", ["removed", "emptied", "edited"])
def test_packages_that_are_not_those_of_the_runs_are_found(bundle: Path, change: str) -> None:
    members = members_of(bundle)
    if change == "removed":
        del members[PACKAGES]
    else:
        content = json.loads(members[PACKAGES])
        content["components"] = [] if change == "emptied" else [{**content["components"][0], "version": "9.9"}]
        members[PACKAGES] = archive.canonical(content)
    found = codes(write_members(bundle, signed_by(listed_anew(members), "forger")))
    assert found == {"packages-missing" if change == "removed" else "packages-differ"}


def test_a_changed_program_is_found(bundle: Path) -> None:
    members = members_of(bundle)
    name = next(name for name in members if name.endswith("/pytorch.py"))
    members[name] += b"# faster\n"
    forged = write_members(bundle, signed_by(listed_anew(members), "forger"))
    assert codes(forged) == {"sources-of-another-version"}


def test_a_run_that_the_list_does_not_name_is_found(bundle: Path) -> None:
    members = {**members_of(bundle), "runs/another/manifest.json": b"{}"}
    assert codes(write_members(bundle, signed_by(listed_anew(members), "forger"))) == {"run-not-listed"}


def test_events_are_not_replaced_under_the_name_of_a_removal(bundle: Path) -> None:
    """The list tells of one word that was taken out, and keeps the digest that the agent wrote; the file is another."""
    members = members_of(bundle)
    name = next(name for name in members if name.endswith("/events.jsonl"))
    true = members[name]
    members[name] = true.replace(b'"t": 5', b'"t": 4')
    listed = msgspec.json.decode(listed_anew(members)[MANIFEST])
    (entry,) = (one for one in listed["files"] if one["path"] == name)
    entry["removed"] = [{"offset": 10, "length": len("[removed:token]"), "kind": "token"}]
    entry["original"] = {"size": len(true), "sha256": hashlib.sha256(true).hexdigest()}
    members[MANIFEST] = archive.canonical(msgspec.convert(listed, BundleManifest))
    assert "removal-wrong" in codes(write_members(bundle, signed_by(members, "forger")))


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "x", "size": -1, "sha256": "0" * 64},
        {"path": "x", "size": 2**70, "sha256": "0" * 64},
        {"path": "x", "size": 1, "sha256": "zz"},
        {"path": "x", "size": 1.5, "sha256": "0" * 64},
        {"path": "x", "size": 1, "sha256": "0" * 64, "removed": [{"offset": -1, "length": 1, "kind": "token"}]},
    ],
)
def test_entries_that_cannot_be_are_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    listed = {"schema": 1, "trainmark": "x", "scorer": 1, "runs": [], "files": [entry], "root": "0" * 64}
    forged = write_members(tmp_path / "x.tmk", {MANIFEST: json.dumps(listed, separators=(",", ":")).encode()})
    with pytest.raises(NotABundle):
        verify.verify(forged)
    assert second_opinion(forged) in (2, 4)


def test_text_of_a_forger_does_not_reach_the_terminal_as_control(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = members_of(bundle)
    figures = json.loads(members[FIGURES])
    figures["reports"][0]["cases"].append({"case": "\x1b[2J\x1b]0;owned\x07"})
    forged = signed_by(listed_anew({**members, FIGURES: msgspec.json.encode(figures)}), "forger")
    assert main(["verify", str(write_members(bundle, forged))]) == 4
    assert "\x1b" not in capsys.readouterr().out
