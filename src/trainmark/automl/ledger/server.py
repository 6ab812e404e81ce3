"""The ledger for workers that share no folder: served on loopback here, with an ssh tunnel from each host."""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from trainmark.automl.experiment.plan import experiment_of
from trainmark.automl.ledger.ledger import Ledger, open_ledger
from trainmark.automl.ledger.storage import connect
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.store.rundir import RunDir

# Of runs that were started by older versions.
_DATABASE = "ledger.db"
# A tunnel that broke is made again, but not more often than this.
_AGAIN_SECONDS = 5.0

Note = Callable[[Reason], None]


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def url_here(run: RunDir, plan: Plan) -> str:
    """The ledger's URL on this machine."""
    url = str(plan.cases[0].params["ledger"])
    if not url.startswith("grpc:"):
        return url
    folder = run.path / "automl"
    return f"sqlite:///{folder}/{_DATABASE}" if (folder / _DATABASE).exists() else f"journal:{folder}/ledger.log"


@contextlib.contextmanager
def served(run: RunDir, plan: Plan, note: Note) -> Iterator[tuple[Ledger, Callable[[], None]]]:
    """The ledger, and what must be called now and then while workers need it."""
    url = str(plan.cases[0].params["ledger"])
    here = url_here(run, plan)
    ledger = open_ledger(here, run.id, experiment_of(plan).architectures)
    if not url.startswith("grpc:"):
        yield ledger, lambda: None
        return
    local = serve(here)
    hosts = sorted({node.host for case in plan.cases for node in case.nodes})
    launcher, port = launcher_of(plan.site), int(url.rpartition(":")[2])
    tunnels = [_Tunnel(host, launcher.tunnel(plan.site, host, port, local), note) for host in hosts]
    try:
        yield ledger, functools.partial(_tend, tunnels)
    finally:
        for tunnel in tunnels:
            tunnel.close()


def _tend(tunnels: list[_Tunnel]) -> None:
    for tunnel in tunnels:
        tunnel.tend()


def serve(url: str) -> int:
    """Optuna's proxy on a port of its own; it lives as long as this process."""
    import optuna

    port = free_port()
    storage = connect(url)

    def run() -> None:
        import warnings

        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.run_grpc_proxy_server(storage, host="127.0.0.1", port=port)

    threading.Thread(target=run, name="ledger", daemon=True).start()
    return port


class _Tunnel:
    """A program that makes the ledger's port appear on a host, started again when it ends."""

    def __init__(self, host: str, argv: list[str], note: Note) -> None:
        self._host, self._argv, self._note = host, argv, note
        self._process: subprocess.Popen[Any] | None = None
        self._begun = -_AGAIN_SECONDS
        self.tend()

    def tend(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if time.monotonic() - self._begun < _AGAIN_SECONDS:
            return
        if self._process is not None:
            self._note(reason("automl-tunnel-again", host=self._host))
        self._begun = time.monotonic()
        quiet = subprocess.DEVNULL
        # Of its own session: Ctrl-C is for the controller, which then asks workers to end.
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5.0)
