"""Whoever changes a bundle, or packs a run that did not happen so, is found out. Each forgery is made for real."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from tests.trust.honest import honest_run, lines, nodes, packed, write_lines
from trainmark.store import journal, rundir
from trainmark.store.rundir import RunDir
from trainmark.testing.synthetic import NS
from trainmark.trust import archive, keys, statement, verify
from trainmark.trust.archive import NotABundle
from trainmark.trust.records import FIGURES, MANIFEST, PACKAGES, BundleManifest, FileEntry, tree_root

SECOND = Path(__file__).resolve().parents[2] / "tools" / "verify_bundle.py"


def codes(path: Path) -> set[str]:
    """Of the faults that verifying finds."""
    return {one.reason.code for one in verify.verify(path).faults()}


def second_opinion(path: Path) -> int:
    """Of the verifier that shares no code with trainmark."""
    done = subprocess.run([sys.executable, str(SECOND), str(path)], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode


# -- archives: members as they are, to be written again


Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    stream = zstandard.ZstdDecompressor().stream_reader(path.open("rb"))
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def write_members(path: Path, members: Members) -> Path:
    with path.open("wb") as out:
        archive.write(out, [(name, len(content), [content]) for name, content in members.items()])
    return path


def listed_anew(members: Members) -> Members:
    """With a list of files that agrees with what is there now; signatures stay as they are."""
    old = msgspec.json.decode(members[MANIFEST], type=BundleManifest)
    files = []
    for name in sorted(set(members) - {MANIFEST}):
        if not name.startswith("signatures/"):
            before = next((one for one in old.files if one.path == name), None)
            digest = hashlib.sha256(members[name]).hexdigest()
            removed = before.removed if before is not None else []
            original = before.original if before is not None else None
            files.append(FileEntry(name, len(members[name]), digest, removed, original))
    fresh = msgspec.structs.replace(old, files=files, root=tree_root(files))
    return {**members, MANIFEST: archive.canonical(fresh)}


def signed_by(members: Members, name: str) -> Members:
    """Without the old signatures, with that of another key."""
    if name not in {one.name for one in keys.listed()}:
        keys.create(name)
    left = {path: content for path, content in members.items() if not path.startswith("signatures/")}
    path, content = statement.sign(keys.load(name), "maker", members[MANIFEST], _predicate())
    return {MANIFEST: left.pop(MANIFEST), path: content, **left}


def _predicate() -> dict[str, Any]:
    return {"buildDefinition": {"internalParameters": {"role": "maker"}}}


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
    forged = signed_by(listed_anew({**members, FIGURES: json.dumps(figures).encode()}), "forger")
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
    assert "node-missing" in codes(write_members(bundle, signed_by(members, "forger")))


def test_more_changed_than_was_said_to_be_removed_is_found(bundle: Path) -> None:
    members = members_of(bundle)
    content = msgspec.json.decode(members[MANIFEST])
    for entry in content["files"]:
        if entry["path"].endswith("env.log"):
            entry["removed"] = [{"offset": 0, "length": 5, "kind": "token"}]
            entry["original"] = {"size": entry["size"], "sha256": entry["sha256"]}
    members[MANIFEST] = archive.canonical(content)
    assert "removal-wrong" in codes(write_members(bundle, signed_by(members, "forger")))


# -- archives that are none, or want to be more


def _tar(path: Path, make: Callable[[tarfile.TarFile], None]) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        make(tar)
    path.write_bytes(zstandard.ZstdCompressor().compress(raw.getvalue()))
    return path


def _member(name: str, **fields: Any) -> Callable[[tarfile.TarFile], None]:
    def make(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        for field, value in fields.items():
            setattr(info, field, value)
        tar.addfile(info, io.BytesIO(b"x" * info.size))

    return make


HOSTILE = {
    "goes up": _member("../outside.txt", size=1),
    "goes up later": _member("runs/../../outside.txt", size=1),
    "absolute": _member("/tmp/trainmark-outside.txt", size=1),
    "symbolic link": _member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "hard link": _member("link", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "device": _member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "pipe": _member("pipe", type=tarfile.FIFOTYPE),
    "folder": _member("folder", type=tarfile.DIRTYPE),
    "control characters": _member("a\x1b[2Jb", size=1),
    "long name": _member("a" * 3000, size=1),
    "no list of files": _member("x", size=1),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_members_are_refused_and_nothing_is_written_outside(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    forged = _tar(tmp_path / "in" / "x.tmk", HOSTILE[kind])
    with pytest.raises(NotABundle):
        verify.verify(forged)
    assert second_opinion(forged) == 2
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["in", "x.tmk"]
    assert not Path("/tmp/trainmark-outside.txt").exists()


def test_one_name_twice_is_refused(bundle: Path, tmp_path: Path) -> None:
    def twice(tar: tarfile.TarFile) -> None:
        for content in (b"a", b"b"):
            info = tarfile.TarInfo(MANIFEST)
            info.size = 1
            tar.addfile(info, io.BytesIO(content))

    with pytest.raises(NotABundle, match="twice"):
        verify.verify(_tar(tmp_path / "x.tmk", twice))


def test_a_truncated_archive_is_refused_wherever_it_ends(bundle: Path) -> None:
    content = bundle.read_bytes()
    for length in (0, 3, 10, 100, len(content) // 3, len(content) // 2, len(content) - 1000):
        bundle.write_bytes(content[:length])
        try:
            assert "file-missing" in codes(bundle)
        except NotABundle:
            pass
        assert length != len(content) // 2 or second_opinion(bundle) in (2, 4)


def test_something_after_the_end_is_refused(bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes() + b"more")
    with pytest.raises(NotABundle):
        verify.verify(bundle)


def test_ten_gigabytes_of_zeros_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    """As they would come: the header says ten gigabytes, and the stream goes on with zeros."""
    info = tarfile.TarInfo("zeros")
    info.size = 10 * 1024**3
    with (
        (tmp_path / "x.tmk").open("wb") as out,
        zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed_,
    ):
        packed_.write(info.tobuf(tarfile.GNU_FORMAT))
        packed_.write(bytes(64 * 1024**2))
    with pytest.raises(NotABundle, match="larger than can be true"):
        verify.verify(tmp_path / "x.tmk")
    assert second_opinion(tmp_path / "x.tmk") == 2


def test_more_files_than_a_bundle_may_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_FILES", 1000)
    blocks = bytearray()
    for number in range(archive.MOST_FILES + 10):
        blocks += tarfile.TarInfo(f"{number}").tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "x.tmk").write_bytes(zstandard.ZstdCompressor(level=1).compress(bytes(blocks + bytes(1024))))
    with pytest.raises(NotABundle, match="files"):
        verify.verify(tmp_path / "x.tmk")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"schema":99}',
        b'{"schema":1}',
        b'{"schema":"\xff"}',
        b'{"schema":1,"trainmark":"x","scorer":1,"runs":["../.."],"files":[],"root":""}',
    ],
)
def test_a_list_of_files_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NotABundle):
        verify.verify(write_members(tmp_path / "x.tmk", {MANIFEST: content}))


# -- runs that did not happen so, packed with digests that agree by somebody who has the key


def drop_round(run: RunDir) -> None:
    shutil.rmtree(next(run.path.glob("*/round2")))


def drop_round_everywhere(run: RunDir) -> None:
    drop_round(run)
    write_lines(run.path / journal.NAME, [one for one in lines(run.path / journal.NAME) if one.get("round") != 2])


def add_attempt(run: RunDir) -> None:
    shutil.copytree(nodes(run)[0].parent, nodes(run)[0].parent.with_name("attempt2"))


def splice(run: RunDir) -> None:
    other = honest_run(run.path.parents[1] / "other", seed=31)
    shutil.rmtree(nodes(run)[1])
    shutil.copytree(nodes(other)[1], nodes(run)[1] if len(nodes(run)) == 3 else _second(run))


def _second(run: RunDir) -> Path:
    return next(run.path.glob("*/round2")) / "attempt1" / "n1_noderank0"


def _events(
    change: Callable[[list[dict[str, Any]]], None], which: tuple[int, ...] = (0, 1, 2)
) -> Callable[[RunDir], None]:
    def forge(run: RunDir) -> None:
        for number in which:
            path = nodes(run)[number] / rundir.EVENTS
            events = lines(path)
            change(events)
            write_lines(path, events)

    return forge


def _faster(events: list[dict[str, Any]]) -> None:
    first = events[0]["t"]
    for event in events:
        event["t"] = first + int((event["t"] - first) * 0.95)


def _later(events: list[dict[str, Any]]) -> None:
    for event in events:
        event["t"] += 3600 * NS


def _no_noise(events: list[dict[str, Any]]) -> None:
    for rank in (0, 1):
        steps = [event for event in events if event["k"] == "STEP_END" and event["rank"] == rank]
        for event in steps:
            event["t"] = steps[0]["t"] + (event["step"] - 1) * 153_000_000


def _smooth(events: list[dict[str, Any]]) -> None:
    for event in events:
        if event["k"] == "STEP_END":
            event["loss"] = 2.0 - event["step"] * 0.001


def _other_host(events: list[dict[str, Any]]) -> None:
    for event in events:
        if event["k"] == "INIT_START":
            event["host"] = "faster"


def _too_fast(events: list[dict[str, Any]]) -> None:
    """More operations a second than its ranks measured that the hardware can do."""
    extra = [
        {"k": "NOTE", "rank": rank, "seq": 0, "t": events[0]["t"], "name": name, "value": value}
        for rank in (0, 1)
        for name, value in (("matmul_flops_per_s", 1e9), ("flops_per_sample", 1e9))
    ]
    events[1:1] = [one for one in extra if one["rank"] == 0]
    at = next(index for index, event in enumerate(events) if event["rank"] == 1)
    events[at + 1 : at + 1] = [one for one in extra if one["rank"] == 1]
    for rank in (0, 1):
        for number, event in enumerate(one for one in events if one["rank"] == rank):
            event["seq"] = number


def copy_round(run: RunDir) -> None:
    """The first round again as the second, its step times changed by half a percent of noise."""
    import random

    draw = random.Random(1)
    events = lines(nodes(run)[0] / rundir.EVENTS)
    late: dict[int, int] = {}
    for event in events:
        if event["k"] == "STEP_END":
            late[event["rank"]] = late.get(event["rank"], 0) + int(draw.gauss(0, 2e-4) * NS)
        event["t"] += late.get(event["rank"], 0)
    write_lines(nodes(run)[1] / rundir.EVENTS, events)
    shutil.copy(nodes(run)[0] / rundir.SAMPLES, nodes(run)[1] / rundir.SAMPLES)


def copy_losses(run: RunDir) -> None:
    losses = {
        (event["rank"], event["step"]): event["loss"]
        for event in lines(nodes(run)[0] / rundir.EVENTS)
        if event["k"] == "STEP_END"
    }
    for node in nodes(run)[1:]:
        events = lines(node / rundir.EVENTS)
        for event in events:
            if event["k"] == "STEP_END":
                event["loss"] = losses[event["rank"], event["step"]]
        write_lines(node / rundir.EVENTS, events)


def _samples(change: Callable[[dict[str, Any], int], None]) -> Callable[[RunDir], None]:
    def forge(run: RunDir) -> None:
        for node in nodes(run):
            samples = lines(node / rundir.SAMPLES)
            for number, sample in enumerate(samples[1:]):
                change(sample, number)
            write_lines(node / rundir.SAMPLES, samples)

    return forge


def _idle(sample: dict[str, Any], _number: int) -> None:
    for rank in sample["ranks"].values():
        rank["cpu"] = 0.0


def _less_power(sample: dict[str, Any], _number: int) -> None:
    trains = 0 < sample["steps"].get("0", 0) < 200
    sample["power_w"] = 120.0 if trains else 200.0


def turn_time_back(run: RunDir) -> None:
    records = lines(run.path / journal.NAME)
    records[-2]["wall"] -= 3600 * NS
    write_lines(run.path / journal.NAME, records)


def shorten_attempt(run: RunDir) -> None:
    """The journal tells of a round that took half as long as its node says."""
    records = lines(run.path / journal.NAME)
    began = next(one["wall"] for one in records if one["k"] == "attempt" and one["round"] == 1)
    ended = next(one for one in records if one["k"] == "ended" and one["round"] == 1)
    ended["wall"] = began + (ended["wall"] - began) // 2
    write_lines(run.path / journal.NAME, records)


def _manifest(change: Callable[[dict[str, Any]], None]) -> Callable[[RunDir], None]:
    def forge(run: RunDir) -> None:
        path = run.path / rundir.MANIFEST
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return forge


def _other_machine(manifest: dict[str, Any]) -> None:
    manifest["provenance"]["facts"]["cpu"]["model"] = "Humble 100"


def _locked(manifest: dict[str, Any]) -> None:
    manifest["plan"]["cases"][0]["params"]["lr"] = 9.9


def _first_of_series(manifest: dict[str, Any]) -> None:
    manifest["series"]["number"] = 2


def _other_program(manifest: dict[str, Any]) -> None:
    manifest["plan"]["cases"][0]["version"] = "000000000000"


def _renamed(manifest: dict[str, Any]) -> None:
    manifest["run"] = "another-run"


def shorten_series(run: RunDir) -> None:
    path = run.path.parent / ".series.jsonl"
    path.write_text(path.read_text().replace('"number":1', '"number":0'))


RUNS: dict[str, tuple[Callable[[RunDir], None], str]] = {
    "a round dropped": (drop_round, "node-missing"),
    "a round dropped from the journal, too": (drop_round_everywhere, "round-missing"),
    "an attempt that the journal does not know": (add_attempt, "attempt-not-in-journal"),
    "two runs spliced": (splice, "other-attempt"),
    "events scaled by 5 %": (_events(_faster), "speed-differs-from-agent"),
    "time stamps of events shifted": (_events(_later), "events-outside-samples"),
    "step times without noise": (_events(_no_noise), "no-noise"),
    "a loss that is a line": (_events(_smooth), "loss-too-smooth"),
    "a faster machine's log": (_events(_other_host), "hosts-differ"),
    "faster than the peak": (_events(_too_fast), "over-everything"),
    "a round copied with jitter": (copy_round, "rounds-alike"),
    "losses copied": (copy_losses, "losses-copied"),
    "no load while training": (_samples(_idle), "no-load"),
    "less power than idle": (_samples(_less_power), "power-below-idle"),
    "time goes back": (turn_time_back, "time-went-back"),
    "an attempt shorter than its node's": (shorten_attempt, "longer-than-attempt"),
    "another machine's manifest": (_manifest(_other_machine), "other-machine"),
    "a locked parameter": (_manifest(_locked), "locked-parameter"),
    "another number in the series": (_manifest(_first_of_series), "series-broken"),
    "another program": (_manifest(_other_program), "sources-of-another-version"),
    "another name": (_manifest(_renamed), "run-renamed"),
    "an edited series": (shorten_series, "series-broken"),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_did_not_happen_so_is_found(run: RunDir, tmp_path: Path, kind: str) -> None:
    forge, expected = RUNS[kind]
    forge(run)
    assert expected in codes(packed(RunDir(run.path), tmp_path / "forged.tmk"))


def test_the_best_of_many_runs_do_not_pass_as_all(tmp_path: Path) -> None:
    run = honest_run(tmp_path / "runs", number=20)
    found = verify.verify(packed(run, tmp_path / "x.tmk"))
    assert found.verified
    shown = [one.reason for one in found.findings]
    assert [(one.code, one.arguments) for one in shown] == [("runs-of-series", {"shown": 1, "of": 20})]
