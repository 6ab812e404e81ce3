from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from trainmark.run import lease
from trainmark.store.rundir import LEASE


def test_epoch_grows_with_every_take_over(tmp_path: Path) -> None:
    first = lease.take(tmp_path)
    first.release()
    second = lease.take(tmp_path)
    assert (first.epoch, second.epoch) == (1, 2)
    with pytest.raises(lease.LostLease), first.held():
        pytest.fail("a replaced owner must not go on")
    with second.held():
        pass


def test_a_living_owner_keeps_the_run(tmp_path: Path) -> None:
    lease.take(tmp_path)
    with pytest.raises(lease.Owned, match="trainmark stop"):
        lease.take(tmp_path)


def test_a_dead_owner_does_not(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from trainmark.run import lease; lease.take(Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert lease.take(tmp_path).epoch == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, lease.LostLease, None])
def test_it_is_released_on_every_way_out(tmp_path: Path, error: type[BaseException] | None) -> None:
    with contextlib.suppress(KeyboardInterrupt, OSError, lease.LostLease), lease.take(tmp_path):
        if error is not None:
            raise error
    assert lease.take(tmp_path).epoch == 2


def test_one_that_was_taken_over_is_left_alone(tmp_path: Path) -> None:
    with lease.take(tmp_path) as mine:
        other = msgspec.structs.replace(mine.owner, epoch=7, pid=1)
        (tmp_path / LEASE).write_bytes(msgspec.json.encode(other))
    assert lease.read(tmp_path) == other


def test_a_pid_used_again_is_somebody_else(tmp_path: Path) -> None:
    mine = lease.take(tmp_path)
    (tmp_path / LEASE).write_bytes(msgspec.json.encode(msgspec.structs.replace(mine.owner, start_ticks=1)))
    assert lease.take(tmp_path).epoch == 2


def test_an_owner_elsewhere_is_known_by_its_renewals(tmp_path: Path) -> None:
    mine = lease.take(tmp_path)
    other = msgspec.structs.replace(mine.owner, host="elsewhere")
    (tmp_path / LEASE).write_bytes(msgspec.json.encode(other))
    assert not lease.is_alive(other, tmp_path, sleep=lambda _: None)
    assert lease.is_alive(other, tmp_path, sleep=lambda _: (tmp_path / LEASE).touch())


def test_only_one_of_many_wins(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from trainmark.run import lease\n"
        "try:\n    lease.take(Path(sys.argv[1])); print('won', flush=True); sys.stdin.read()\n"
        "except lease.Owned: print('lost')"
    )
    many = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    # The winner holds on until all have tried.
    said = [process.stdout.readline().strip() for process in many]
    for process in many:
        process.communicate()
    assert sorted(said) == ["lost"] * 5 + ["won"]
