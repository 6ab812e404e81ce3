"""Archives that are no bundles, or want to be more: refused by both verifiers, with nothing written outside, in little
memory."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.trust.forging import codes, second_opinion, write_members
from trainmark.trust import archive, verify
from trainmark.trust.archive import NotABundle
from trainmark.trust.records import MANIFEST


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


def _raw(info: tarfile.TarInfo, content: bytes = b"") -> Callable[[tarfile.TarFile], None]:
    """A member as it is, without what `tarfile` would put right."""

    def make(tar: tarfile.TarFile) -> None:
        fill = bytes(-len(content) % tarfile.BLOCKSIZE)
        assert tar.fileobj is not None
        tar.fileobj.write(info.tobuf(tarfile.GNU_FORMAT) + content + fill)

    return make


def _typed(kind: bytes, content: bytes, name: str = "x") -> Callable[[tarfile.TarFile], None]:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    return _raw(info, content)


def _pax(**records: str) -> Callable[[tarfile.TarFile], None]:
    """A plain file whose extended header says something else."""

    def make(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("harmless")
        info.size, info.pax_headers = 1, records
        tar.addfile(info, io.BytesIO(b"x"))

    return make


def _linked(tar: tarfile.TarFile) -> None:
    _member("a", size=1)(tar)
    _member("b", type=tarfile.LNKTYPE, linkname="a")(tar)


def _two(*names: str) -> Callable[[tarfile.TarFile], None]:
    def make(tar: tarfile.TarFile) -> None:
        for name in names:
            _member(name, size=1)(tar)

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
    "a path in an extended header": _pax(path="../outside.txt"),
    "an absolute path in an extended header": _pax(path="/tmp/trainmark-outside.txt"),
    "a size in an extended header": _pax(size="99999999999"),
    "a link in an extended header": _pax(path="link", linkpath="/etc/passwd"),
    "a sparse file": _pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "../outside.txt"}),
    "a sparse file of GNU's": _typed(tarfile.GNUTYPE_SPARSE, b""),
    "a long name of GNU's": _typed(tarfile.GNUTYPE_LONGNAME, b"../outside.txt\0"),
    "a header for all that follows": _typed(tarfile.XGLTYPE, b"23 path=../outside.txt\n"),
    "a hard link to a file before it": _linked,
    "a plain file that links": _member("x", linkname="/etc/passwd"),
    "a file as a folder": _two("bundle.json", "bundle.json/x"),
    "names that look alike": _two("sources/a/0/\ufb01t.py", "sources/a/0/fit.py"),
    "a name that is not composed": _member("sources/a/0/e\u0301.py", size=1),
    "letters of another alphabet": _member("runs/r/\u0435vents.jsonl", size=1),
    "a name that turns around": _member("sources/a/0/\u202eyp.exe", size=1),
    "many folders": _member("/".join("a" * 200), size=1),
    "an owner": _member("bundle.json", size=1, uname="root"),
    "a set-uid bit": _member("bundle.json", size=1, mode=0o4755),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_members_are_refused_and_nothing_is_written_outside(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    forged = _tar(tmp_path / "in" / "x.tmk", HOSTILE[kind])
    with pytest.raises(NotABundle) as refused:
        verify.verify(forged)
    assert ("is not in it" in str(refused.value)) == (kind == "no list of files")
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
    assert second_opinion(bundle) == 2


def _framed(path: Path, *frames: bytes) -> Path:
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(frame) for frame in frames))
    return path


def test_a_second_frame_is_refused_whatever_it_holds(bundle: Path, tmp_path: Path) -> None:
    """Some programs read on, others stop: they would see two different bundles."""
    content = bundle.read_bytes()
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"evil"
    zeros = zstandard.ZstdCompressor().compress(bytes(1024))
    for more in (content, zeros, skipped, zstandard.ZstdCompressor().compress(b"")):
        bundle.write_bytes(content + more)
        with pytest.raises(NotABundle, match="follows its end"):
            verify.verify(bundle)
        assert second_opinion(bundle) == 2


def test_something_hidden_between_or_behind_files_is_refused(bundle: Path, tmp_path: Path) -> None:
    plain = zstandard.ZstdDecompressor().stream_reader(bundle.open("rb")).read()
    padded = plain.index(b"\0" * 200, 3000)
    for forged in (plain + b"x" * 512, plain + bytes(20_480), plain[: padded + 99] + b"x" + plain[padded + 100 :]):
        _framed(bundle, forged)
        with pytest.raises(NotABundle):
            verify.verify(bundle)
        assert second_opinion(bundle) == 2


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.REGTYPE])
def test_no_header_makes_either_verifier_read_gigabytes_into_memory(tmp_path: Path, kind: bytes) -> None:
    """A name of 4 GB, or a list of files of 4 GB, in an archive of 150 kB."""
    info = tarfile.TarInfo(MANIFEST)
    info.type, info.size = kind, 4 * 1024**3
    with (
        (tmp_path / "x.tmk").open("wb") as out,
        zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed_,
    ):
        packed_.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            packed_.write(bytes(16 * 1024**2))
    limited = [sys.executable, "-c", _LIMITED, str(tmp_path / "x.tmk")]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=120)
    assert done.stdout == "refused\n", done.stderr
    assert second_opinion(tmp_path / "x.tmk") == 2


_LIMITED = """
import resource, sys
from pathlib import Path
from trainmark.trust import verify
from trainmark.trust.archive import NotABundle
resource.setrlimit(resource.RLIMIT_DATA, (512 << 20, 512 << 20))
try:
    verify.verify(Path(sys.argv[1]))
except NotABundle:
    print("refused")
"""


def test_a_hostile_list_of_empty_blocks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MOST_BLOCKS", 1000)
    (tmp_path / "x.tmk").write_bytes(b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * 2000 + b"\x01\0\0")
    with pytest.raises(NotABundle, match="blocks"):
        verify.verify(tmp_path / "x.tmk")
    assert second_opinion(tmp_path / "x.tmk") == 2


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
