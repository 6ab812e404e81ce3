"""Parts of the modelarts launcher on their own: calls, code by content, names without DNS."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import types
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.launch.modelarts.conftest import site_of
from trainmark.emulate.modelarts.server import Emulator
from trainmark.emulate.modelarts.site_file import BUCKET
from trainmark.errors import SiteError
from trainmark.launch.modelarts import code, credentials, options
from trainmark.launch.modelarts.calls import Caller, CallFailed, pauses
from trainmark.launch.modelarts.code import Sent
from trainmark.launch.modelarts.object_store import ObjectStore
from trainmark.launch.modelarts.options import PrepareWorker
from trainmark.launch.modelarts.transport import ObjectStoreTransport
from trainmark.launch.modelarts.tunnel import Tunnel
from trainmark.launch.trees import pack


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


def test_what_passes_is_repeated_with_longer_and_longer_pauses_until_its_time_is_over() -> None:
    clock = Time()
    caller = Caller(100.0, clock.sleep, lambda: clock.now, pauses(lambda low, high: high))
    calls = []

    def call() -> None:
        calls.append(clock.now)
        raise CallFailed("x", 503, "", "busy")

    with pytest.raises(CallFailed):
        caller(call)
    assert clock.slept[:4] == [0.3, 0.6, 1.2, 2.4] and max(clock.slept) == 20.0
    assert 100.0 <= calls[-1] < 125.0


@pytest.mark.parametrize(("status", "calls"), [(400, 1), (401, 1), (404, 1), (429, 3), (500, 3), (0, 3)])
def test_only_what_passes_is_repeated(status: int, calls: int) -> None:
    clock, seen = Time(), []

    def call() -> str:
        seen.append(status)
        if len(seen) < 3:
            raise CallFailed("x", status, "", "")
        return "done"

    caller = Caller(100.0, clock.sleep, lambda: clock.now)
    if calls == 1:
        with pytest.raises(CallFailed):
            caller(call)
    else:
        assert caller(call) == "done"
    assert len(seen) == calls


def store_of(emulator: Emulator) -> ObjectStore:
    return ObjectStore(options.of(site_of(emulator)), Caller(5.0))


def keys(emulator: Emulator, prefix: str) -> set[str]:
    return {one.key[len(prefix) :] for one in emulator.objects.below(BUCKET, prefix)}


def test_code_goes_up_by_content(emulator: Emulator, tmp_path: Path) -> None:
    program, large = tmp_path / "program", tmp_path / "run"
    for folder in (program, large):
        folder.mkdir()
    (program / "train.py").write_text("one")
    (large / "cann.run").write_bytes(b"large" * 1000)
    prepare, store = PrepareWorker(files=[str(large)]), store_of(emulator)

    first = code.folder_of(pack((str(program),)), prepare)
    assert code.upload(store, BUCKET, "code/", first) == Sent(put=4, copied=0, kept=0, removed=0)
    assert keys(emulator, f"code/{first.name}/") >= {"boot.py", "run/cann.run"}
    assert code.upload(store, BUCKET, "code/", first) == Sent(put=0, copied=0, kept=4, removed=0)

    emulator.objects.put(BUCKET, f"code/{first.name}/run/old.run", b"stale")
    emulator.objects.put(BUCKET, f"code/{first.name}/boot.py", b"changed by somebody")
    assert code.upload(store, BUCKET, "code/", first) == Sent(put=1, copied=0, kept=3, removed=1)
    assert "run/old.run" not in keys(emulator, f"code/{first.name}/")

    (program / "train.py").write_text("two")
    second = code.folder_of(pack((str(program),)), prepare)
    assert second.name != first.name
    sent = code.upload(store, BUCKET, "code/", second)
    assert sent == Sent(put=1, copied=3, kept=0, removed=0), "only what changed goes up"


def test_an_unreadable_file_of_code_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="cannot be read"):
        code.folder_of(None, PrepareWorker(script=str(tmp_path / "gone.sh")))


def test_the_transport_takes_growing_files_piece_by_piece(emulator: Emulator, tmp_path: Path) -> None:
    transport = ObjectStoreTransport(store_of(emulator), BUCKET, "out/node0/", tmp_path / "node")
    emulator.objects.put(BUCKET, "out/node0/events.jsonl", b"one\ntw")
    emulator.objects.put(BUCKET, "out/node0/../../escape", b"x")
    transport.fetch()
    emulator.objects.put(BUCKET, "out/node0/events.jsonl", b"one\ntwo\n")
    transport.fetch()
    assert (tmp_path / "node" / "events.jsonl").read_bytes() == b"one\ntwo\n"
    emulator.objects.put(BUCKET, "out/node0/events.jsonl", b"new\n")
    transport.fetch()
    assert (tmp_path / "node" / "events.jsonl").read_bytes() == b"new\n"
    assert not (tmp_path / "escape").exists() and not (tmp_path.parent / "escape").exists()


@pytest.fixture
def moto() -> Iterator[str]:
    """An object store that is not ours."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/moto-api/", timeout=1)
            break
        except OSError:
            time.sleep(0.1)
    yield url
    os.kill(server.pid, signal.SIGKILL)
    server.wait()


@pytest.mark.cloud
def test_another_store_understands_the_same_calls(emulator: Emulator, moto: str, tmp_path: Path) -> None:
    """An emulator of our own might forgive our own mistakes."""
    here = options.of(site_of(emulator))
    there = msgspec.structs.replace(here, endpoints=options.Endpoints(obs=moto))
    store = ObjectStore(there, Caller(5.0))
    with pytest.raises(CallFailed) as refused:
        store.check_bucket(BUCKET)
    assert refused.value.status == 404
    request = urllib.request.Request(f"{moto}/{BUCKET}", method="PUT")
    urllib.request.urlopen(request)
    store.check_bucket(BUCKET)
    folder = code.folder_of(None, PrepareWorker())
    assert code.upload(store, BUCKET, "code/", folder).put == 2
    assert code.upload(store, BUCKET, "code/", folder).kept == 2
    for number in range(3):
        store.put(BUCKET, f"out/node0/f{number}.jsonl", b"0123456789")
    transport = ObjectStoreTransport(store, BUCKET, "out/node0/", tmp_path)
    transport.fetch()
    assert (tmp_path / "f2.jsonl").read_bytes() == b"0123456789"
    store.put(BUCKET, "out/node0/f2.jsonl", b"0123456789abc")
    transport.fetch()
    assert (tmp_path / "f2.jsonl").read_bytes() == b"0123456789abc"
    assert store.get(BUCKET, "out/node0/f1.jsonl", 10) == b""
    store.delete(BUCKET, [one.key for one in store.below(BUCKET, "out/")])
    assert list(store.below(BUCKET, "out/")) == []


def test_keys_may_come_from_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {("centre", "access_key"): "AK", ("centre", "secret_key"): "SK"}
    keyring = types.ModuleType("keyring")
    monkeypatch.setattr(keyring, "get_password", lambda name, part: kept.get((name, part)), raising=False)
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    assert credentials.load("keyring:centre") == credentials.Keys("AK", "SK")
    with pytest.raises(SiteError, match="keyring set elsewhere"):
        credentials.load("keyring:elsewhere")
    assert "SK" not in repr(credentials.load("keyring:centre"))


def test_names_without_dns_are_connected_by_address(emulator: Emulator) -> None:
    tunnel = Tunnel({"obs.centre.example": "127.0.0.1"})
    try:
        port = int(emulator.url.rpartition(":")[2])
        connection = http.client.HTTPConnection(tunnel.host, tunnel.port, timeout=10)
        connection.set_tunnel("obs.centre.example", port)
        connection.request("HEAD", "/bucket?apiversion")
        assert connection.getresponse().getheader("x-obs-api") == "3.0"
        connection.close()
    finally:
        tunnel.close()
