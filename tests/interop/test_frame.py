"""The frame that all formats stand on, with a small format of its own and hostile sources."""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.errors import UserError
from trainmark.interop import protocol
from trainmark.interop.protocol import Option
from trainmark.interop.reading import archive, source
from trainmark.interop.reading.importing import import_results
from trainmark.interop.reading.records import Begin, CaseFields, End, Flag, Item, Kept, LoggedEvent
from trainmark.report import build
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.testing.formats import FormatContract, read


class Toy:
    """`step N took S s`, one step of 4 samples a line."""

    summary = "made for a test"
    tools: Mapping[str, str] = {}
    import_options: tuple[Option, ...] | None = (Option("batch", "samples in a step", "int", 4),)
    export_options: tuple[Option, ...] | None = None

    def wants(self, name: str) -> bool:
        return name.endswith(".log")

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        for file in files:
            yield Begin(CaseFields("toy", "none", 1, 1, params={"batch": options["batch"]}), file.name, "log")
            lines, t = source.Lines(file), 0
            for _, text in lines:
                found = re.search(r"step (\d+) took ([\d.]+) s$", text)
                if found and found[2].count(".") < 2 and len(found[1]) < 9 and found[2] != "." and not lines.torn:
                    lines.take()
                    t += int(float(found[2]) * 1e9)
                    yield LoggedEvent("STEP_END", t, {"step": int(found[1]), "n": options["batch"]})
                    yield LoggedEvent("BLOCK", t, {"step": int(found[1])})
                elif "took" in text:
                    lines.flag("odd", text[:80])
                yield from lines.said()
            yield from lines.said()
            yield lines.counted()
            yield End(JobState.SUCCEEDED)

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    monkeypatch.setattr(protocol.REGISTRY, "_built_in", {"toy": f"{__name__}:Toy"})
    return Toy()


LOG = "hello\n" + "".join(f"step {n} took 0.5 s\n" for n in range(1, 61))


class TestToy(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "toy"

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Path:
        file = tmp_path / "a.log"
        file.write_text(LOG)
        return file


def test_the_speed_of_an_imported_run_is_right(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    brought = import_results("toy", tmp_path / "a.log", tmp_path / "runs", {"batch": 4})
    (case,) = build.build(RunDir(Path(brought.dir))).cases
    assert case.measurements["throughput"].value == pytest.approx(8.0)
    assert case.case == "toy:none:unknown:1:1:1@batch=4"


def kept(folder: Path, data: bytes) -> Kept:
    (folder / "source").write_bytes(data)
    found = source.keep("x", folder / "source", folder / "raw", lambda flag: None)
    assert found is not None
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(b"x" * 200)), max_size=30), st.data())
def test_every_line_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], data: st.DataObject
) -> None:
    # A first line of our own, so that nothing drawn is taken for an archive.
    content = b"\n".join([b"#", *rows])
    lines = source.Lines(kept(tmp_path_factory.mktemp("lines"), content), longest=100)
    taken = 0
    for _ in lines:
        do = data.draw(st.sampled_from(("take", "flag", "pass", "take twice", "flag twice")))
        if do.startswith("take"):
            taken += 1
        for _ in range(2 if do.endswith("twice") else 1):
            if do.startswith("take"):
                lines.take()
            elif do.startswith("flag"):
                lines.flag("odd", "x")
    counted = lines.counted()
    whole = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    assert counted.lines == whole and counted.taken == taken
    assert counted.lines == counted.taken + counted.other + counted.flagged
    assert sum(flag.rows for flag in lines.said()) == counted.flagged


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: zstandard.ZstdCompressor().compress(data)])
def test_compression_is_told_from_content_and_a_cut_is_said(tmp_path: Path, toy: Toy, pack: Any) -> None:
    plain, packed = tmp_path / "a.log", tmp_path / "p" / "a.log"
    packed.parent.mkdir()
    long_log = "".join(f"step {n} took 0.{n * 7919 % 1000:03} s\n" for n in range(1, 50_000))
    plain.write_text(long_log)
    packed.write_bytes(pack(long_log.encode()))
    assert read(toy, packed) == read(toy, plain)
    packed.write_bytes(pack(long_log.encode())[:-1000])
    items = read(toy, packed)
    assert [item.kind for item in items if isinstance(item, Flag) and item.rows == 0] == ["cut off"]
    assert any(isinstance(item, LoggedEvent) for item in items)


def test_two_frames_of_zstd_are_one_file(tmp_path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    assert [text for _, text in source.Lines(kept(tmp_path, pack(b"a\nb\n") + pack(b"c\n")))] == ["a", "b", "c"]


def test_a_hostile_tree(tmp_path: Path, toy: Toy) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "loop").symlink_to(tree)
    (tree / "secret.log").symlink_to("/etc/passwd")
    os.mkfifo(tree / "pipe.log")
    os.close(os.open(os.fsencode(tree) + b"/bad\xff.log", os.O_CREAT | os.O_WRONLY))
    (tree / "z.log").write_bytes(b"PK\x03\x04../../etc/passwd")
    (tree / "good.log").write_text(LOG)
    items = read(toy, tree)
    flags = {(item.kind, item.place) for item in items if isinstance(item, Flag)}
    assert flags == {("link", "secret.log"), ("no plain file", "pipe.log"), ("archive", "z.log")}
    assert [item.label for item in items if isinstance(item, Begin)] == ["bad\\xff.log", "good.log"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"", "no round"), (b"PK\x03\x04", "broken archive"), (b"7z\xbc\xaf", "unpack it"), (None, "no such file")],
)
def test_what_cannot_be_imported_leaves_nothing(tmp_path: Path, data: bytes | None, complaint: str) -> None:
    class Nothing(Toy):
        def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
            return iter(())

    file = tmp_path / "a.log"
    if data is not None:
        file.write_bytes(data)
    protocol.REGISTRY._built_in = {"toy": f"{__name__}:_nothing"}  # type: ignore[assignment]
    globals()["_nothing"] = Nothing
    with pytest.raises(UserError, match=complaint):
        import_results("toy", file, tmp_path / "runs", {"batch": 4})
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def pack(kind: str, file: Path, members: dict[str, bytes]) -> None:
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return
    with tarfile.open(file, f"w:{kind}") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("secret.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)


@pytest.mark.parametrize("kind", ["zip", "", "gz", "bz2", "xz"])
def test_archives_are_read_and_never_unpacked(tmp_path: Path, toy: Toy, kind: str) -> None:
    file = tmp_path / "in" / "logs.dat"
    file.parent.mkdir()
    pack(
        kind, file, {"../../out.log": LOG.encode(), "/abs.log": LOG.encode(), "b/readme": b"", "b/a.log": LOG.encode()}
    )
    before = sorted(tmp_path.rglob("*"))
    items = read(toy, file)
    assert sorted(item.label for item in items if isinstance(item, Begin)) == ["abs.log", "b/a.log", "out.log"]
    assert sorted(tmp_path.rglob("*")) == before
    flags = {(item.kind, item.place) for item in items if isinstance(item, Flag)}
    assert flags - {("link", "secret.log")} == {("path", "out.log"), ("path", "abs.log")}
    assert (("link", "secret.log") in flags) == (kind != "zip")
    file.write_bytes(file.read_bytes()[:-200] if kind != "" else file.read_bytes()[:2000])
    assert "broken archive" in {item.kind for item in read(toy, file) if isinstance(item, Flag)}


def test_a_million_lines_need_no_memory(tmp_path: Path, toy: Toy) -> None:
    import tracemalloc

    file = tmp_path / "a.log"
    with file.open("w") as out:
        for n in range(1, 200_001):
            out.write(f"step {n} took 0.001 s\n")
    found = source.keep("a.log", file, tmp_path / "raw", lambda flag: None)
    assert found is not None
    tracemalloc.start()
    count = sum(1 for _ in toy.read([found], {"batch": 4}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count > 400_000 and peak < 4_000_000


def test_what_unpacks_without_end_is_cut_at_a_stated_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1 << 20)
    file = tmp_path / "result_0.txt.gz"
    file.write_bytes(gzip.compress(b"noise\n" * (1 << 19)))
    (kept,) = source.keep_all(file, lambda name: True, tmp_path / "raw", lambda flag: None)
    lines = source.Lines(kept)
    assert sum(1 for _ in lines) < 1 << 19
    assert ["unpacks to more than" in flag.text for flag in lines.said()] == [True]
