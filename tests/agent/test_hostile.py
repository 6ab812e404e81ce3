"""Ranks that write what they should not: the agent passes on what it can, says what it left out, and never breaks."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

import pytest

from trainmark.agent.events.reader import LONGEST, EventStream
from trainmark.agent.events.shipper import Shipper, complete

from .harness import Node, words
from .test_events import keys, line

SPEAK = "begin(); step(1); spool_file = os.environ['TRAINMARK_SPOOL']; folder = os.path.dirname(spool_file)\n"


def ship(folder: Path, content: bytes, rank: int = 0) -> tuple[Shipper, list[str]]:
    """A whole spool file shipped to its end; the shipper, and what it warned of."""
    shipper = Shipper(str(folder), str(folder / "spool"), [rank])
    (folder / "spool" / f"rank{rank}.jsonl").write_bytes(content)
    return shipper, shipper.finish()


def no_plain_file(kind: str, path: Path) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_a_spool_that_is_no_plain_file_is_ignored(tmp_path: Path, kind: str) -> None:
    shipper = Shipper(str(tmp_path), str(tmp_path / "spool"), [0])
    no_plain_file(kind, tmp_path / "spool" / "rank0.jsonl")
    assert [shipper.ship(1), shipper.ship(2)] == [False, False]
    (warning,) = words(shipper.finish())
    assert warning.startswith("rank 0: its events are not read: ")
    assert not (tmp_path / "spool").exists()

    (tmp_path / "spool").mkdir()
    no_plain_file(kind, tmp_path / "spool" / "rank0.jsonl")
    (tmp_path / "spool" / "rank1.jsonl").write_bytes(line(1, 0))
    assert complete(str(tmp_path)) == 1
    assert "events-not-read rank=0" in (tmp_path / "agent.log").read_text()


def test_pipes_in_the_place_of_other_files_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(OSError, match=r"events\.jsonl"):
        complete(str(tmp_path))


def test_a_rank_whose_spool_is_a_pipe_never_spoke(node: Node) -> None:
    # Not by the speaker, which makes a plain file first: the agent may have that open already.
    script = "import os; os.mkfifo(os.environ['TRAINMARK_SPOOL'])"
    result = node.ranks([node.python, "-c", script]).run()
    assert (result["state"], result["reason"]) == ("FAILED", "rank 0 ended without speaking to the probe")
    assert len([text for text in result["warnings"] if "its events are not read" in text]) == 1


@pytest.mark.parametrize("mischief", [
    "import shutil; time.sleep(1.2); shutil.rmtree(folder)",
    "os.makedirs(folder + '/sub/sub'); os.symlink('/etc', folder + '/sub/etc')",
    "os.symlink('/etc/passwd', folder + '/link'); os.mkfifo(folder + '/pipe')",
    "os.write(spool, b'{\"k\":\"STEP_END\",\"rank\":0,\"seq\":9,\"t\":1,\"step\":\"x\",\"loss\":\"NaN\"}\\n')",
    "os.mkdir(os.path.dirname(folder) + '/control.json')",
    "os.mkfifo(os.path.dirname(folder) + '/control.json'); time.sleep(1.2)",
])  # fmt: skip
def test_a_round_ends_well_whatever_lies_about(node: Node, mischief: str) -> None:
    result = node.ranks(node.script(SPEAK + mischief)).run()
    assert (result["state"], result["ranks"][0]["steps"] >= 1) == ("SUCCEEDED", True), node.log()
    assert not (node.dir / "spool").exists()


@pytest.mark.parametrize("mischief", [
    "os.makedirs(os.path.dirname(folder) + '/result.json/x')",
    # Until it is gone: the agent may write a file while others are removed.
    "import shutil\nwhile os.path.exists(os.path.dirname(folder)): shutil.rmtree(os.path.dirname(folder), True)",
])  # fmt: skip
def test_a_result_that_cannot_be_written(node: Node, containment: str, mischief: str) -> None:
    assert node.ranks(node.script(SPEAK + mischief)).start(containment=containment).wait() == 70


@pytest.mark.parametrize(("ending", "state", "reason"), [
    ("sys.exit(0)", "FAILED", "the agent failed: OSError: [Errno 27] File too large: "),
    ("sys.exit(1)", "FAILED", "the agent failed: OSError: [Errno 27] File too large: "),
    ("time.sleep(60)", "CANCELLED", "stopped by a signal"),
])  # fmt: skip
def test_a_fault_at_the_end_is_a_verdict(node: Node, containment: str, ending: str, state: str, reason: str) -> None:
    """The file of samples has grown past what the agent may write, so that the last sample cannot be added."""
    go = node.root / "go"
    wait = f"begin(); step(1)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    node.ranks(node.script("import sys\n" + wait + ending)).start(containment=containment, sample_seconds=60.0)
    node.until_running()
    time.sleep(0.3)  # sooner, no last sample is taken
    os.truncate(node.dir / "samples.jsonl", 1 << 20)
    resource.prlimit(node.worker(), resource.RLIMIT_FSIZE, (1 << 18, resource.RLIM_INFINITY))
    go.touch()
    if state == "CANCELLED":
        node.signal()
    assert node.wait() == 70
    result = node.result()
    assert (result["state"], result["reason"].startswith(reason)) == (state, True), result["reason"]
    assert "Traceback" in node.log()


def test_a_link_out_of_the_attempt_is_not_followed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "precious").write_text("x")
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "spool").symlink_to(home)
    assert complete(str(folder)) == 0
    assert sorted(os.listdir(home)) == ["deep", "precious"]
    assert not os.path.lexists(folder / "spool")


@pytest.mark.parametrize("text", [
    b'{"k":"STEP_END","rank":0,"seq":9,"t":1,"step":9,"n":' + b"9" * 6000 + b"}\n",
    b'{"k":"STEP_END","rank":0,"seq":9,"step":9,"n":1,"t":' + b"9" * 6000 + b"}\n",
    b'{"k":"STEP_END","rank":0,"seq":9,"n":1,"loss":"NaN","step":' + b"9" * 6000 + b"}\n",
    b'{"k":"STEP_END","loss":"NaN","x":' + b"[" * 100_000 + b"\n",
    b'{"k":"STEP_END","rank":0,"seq":9,"t":1,"step":"x","loss":"NaN"}\n',
    b'{"k":"LOSS","rank":0,"seq":9,"t":1,"steps":5,"values":["NaN"]}\n',
    b'{"k":"LOSS","rank":0,"seq":9,"t":1,"steps":["a",null],"values":["NaN","NaN"]}\n',
    b'{"k":["LOSS"],"rank":0,"NaN":1e999}\n',
    b"\xff\xfe NaN\n\n\n[]\nnull\n",
])  # fmt: skip
def test_malformed_lines_are_passed_on(tmp_path: Path, text: bytes) -> None:
    whole = line(0, 0, step=1, n=4) + text + line(0, 1, step=2, n=4)
    shipper, warnings = ship(tmp_path, whole)
    assert (tmp_path / "events.jsonl").read_bytes() == whole
    stream = shipper.streams[0]
    assert (stream.nonfinite, stream.step, warnings) == (None, 2, [])
    assert stream.samples in (8, 9)


@pytest.mark.parametrize("size", [LONGEST, 5 << 20, 14_000_000])
def test_a_line_that_is_too_long_is_left_out_alone(tmp_path: Path, size: int) -> None:
    good = [line(0, seq, step=seq, n=4) for seq in range(4)]
    content = b"".join(good[:2]) + line(0, 9, "NOTE", value="x" * size) + b"".join(good[2:])
    _, warnings = ship(tmp_path, content)
    assert (tmp_path / "events.jsonl").read_bytes() == b"".join(good)
    assert words(warnings) == ["rank 0 wrote a line of more than 1 MiB, left out"]
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "rank0.jsonl").write_bytes(content + good[0][:5])
    (tmp_path / "events.jsonl").unlink()
    assert complete(str(tmp_path)) == 4


def test_long_lines_that_are_not_too_long_and_one_without_end(tmp_path: Path) -> None:
    good = [line(0, seq, "NOTE", value="x" * (LONGEST - 100)) for seq in range(9)]
    _, warnings = ship(tmp_path, b"".join(good) + b"x" * (9 << 20))
    assert (tmp_path / "events.jsonl").read_bytes() == b"".join(good)
    assert words(warnings) == ["rank 0 wrote a line of more than 1 MiB, left out"]


def test_a_rank_speaks_for_itself_alone(tmp_path: Path) -> None:
    own = [line(1, seq, step=seq, n=4) for seq in range(3)]
    own.append(line(1, 3, "NOTE", value={"rank": 2, "text": 'say "rank":7, and go'}))
    own.append(json.dumps({"k": "NOTE", "seq": 4, "t": 1, "rank": 1}).encode() + b"\n")
    others = [line(rank, 0, step=50, n=100) for rank in (0, 12, -1)]
    others.append(b'{"k":"NOTE","rank":1,"seq":0,"t":1,"rank":7}\n')
    others.append(b'{"k":"NOTE","rank":1,"seq":0,"t":1,"r\\u0061nk":7}\n')
    shipper, warnings = ship(tmp_path, own[0] + b"".join(others) + b"".join(own[1:]), rank=1)
    assert (tmp_path / "events.jsonl").read_bytes() == b"".join(own)
    assert words(warnings) == ["rank 1 wrote 5 events in the name of another rank, left out"]
    assert (shipper.streams[1].events, shipper.streams[1].samples, shipper.shipped) == (5, 12, 5)
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "rank1.jsonl").write_bytes(others[0] + line(1, 5))
    assert complete(str(tmp_path)) == 1
    assert keys(tmp_path)[-1] == (1, 5)


@pytest.mark.parametrize(("text", "found"), [
    (b'{"k":"STEP_END","rank":0,"seq":1,"t":1,"step":3,"n":4,"loss":1e999}\n', (3, "Infinity")),
    (b'{"k": "STEP_END", "rank": 0, "seq": 1, "t": 1, "step": 3, "n": 4, "loss": -1.5E+999}\n', (3, "-Infinity")),
    (b'{"k":"LOSS","rank":0,"seq":1,"t":1,"steps":[1,2],"values":[0.5,1e400]}\n', (2, "Infinity")),
    (b'{"k":"STEP_END","rank":0,"seq":1,"t":1,"step":3,"n":4,"loss":1e300}\n', None),
    (b'{"k":"STEP_END","rank":0,"seq":1,"t":1,"step":3,"n":4,"loss":1e-999}\n', None),
    (b'{"k":"NOTE","rank":0,"seq":1,"t":1,"name":"loss","value":1e999}\n', None),
])  # fmt: skip
def test_losses_too_large_to_be_numbers(tmp_path: Path, text: bytes, found: tuple[int, str] | None) -> None:
    path = tmp_path / "s"
    path.write_bytes(text)
    stream = EventStream(0, str(path))
    stream.take(10)
    assert stream.nonfinite == found
