"""Starting the server: the first admin's link, the queue, and uvicorn until it is told to stop."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from sqlalchemy import func, select

from trainmark.errors import SiteError
from trainmark.web import server_log
from trainmark.web.api.app import make_app
from trainmark.web.proxy.front import Front
from trainmark.web.queue.keeper import Keeper
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import accounts, audit, couriers, database, jobs, notices, retention, tables
from trainmark.web.service.records import SCOPES, JobSpec, Principal

log = logging.getLogger("trainmark.web")

# A request's line and headers; and how long a connection may stay open without one.
_LARGEST_HEAD, _IDLE_SECONDS = 32 << 10, 15
_CONNECTIONS = 2000
_TIDY_SECONDS, _LOOK_SECONDS, _NOTICE_SECONDS = 3600.0, 60.0, 2.0
# On the data that `make serve` fetches.
_DEMO = "mnist:pytorch:cpu:1:1:3"


@dataclass(frozen=True)
class Listening:
    host: str
    port: int
    cert: Path | None = None
    key: Path | None = None
    # Addresses of proxies whose word on clients is taken.
    proxies: tuple[str, ...] = ()


def serve(
    settings: Settings, listening: Listening, say: Callable[[str], None], *, demo: bool = False, json_log: bool = False
) -> None:
    """Until a signal ends it. `say` tells the operator; nothing that it says is logged."""
    server_log.begin(as_json=json_log)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    server = open_server(settings)
    with server.home.served():
        config = uvicorn.Config(
            Front(server, make_app(server)),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(listening.proxies),
            forwarded_allow_ips=list(listening.proxies),
            root_path=settings.root_path,
            ssl_certfile=listening.cert,
            ssl_keyfile=listening.key,
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            http="h11",
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=5,
            # Only what runs beside jobs has any; a notebook's message may be large.
            ws="websockets-sansio",
            ws_max_size=64 << 20,
            ws_ping_interval=20.0,
            limit_concurrency=_CONNECTIONS,
        )
        with _listen(listening) as opened:
            host, port = opened.getsockname()[:2]
            address = f"{'https' if listening.cert else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
            with database.writing(server.engine) as connection:
                link = accounts.first_start(connection)
                audit.note(connection, "", "server.start", address)
            if demo:
                _submit_demo(server)
            say(f"serving at {address}, folder {server.home.path}")
            if link is not None:
                say("first start: this page, or `trainmark login URL --link`, sets the password of `admin`, once:")
                say(f"{address}{settings.root_path}/link#{link}")
            keeper = server.keeper = Keeper(server)
            keeper.start()
            ending = threading.Event()
            for name, seconds, act in (
                ("tidy", _TIDY_SECONDS, lambda: _remove_old(server)),
                ("endpoints", _LOOK_SECONDS, lambda: _close_unused(server)),
                ("notices", _NOTICE_SECONDS, lambda: couriers.deliver(server)),
            ):
                threading.Thread(target=_repeat, args=(ending, seconds, act), name=name, daemon=True).start()
            try:
                uvicorn.Server(config).run(sockets=[opened])
            finally:
                ending.set()
                keeper.close()
                server.gates.close()
                server.boards.close()


def _submit_demo(server: Server) -> None:
    """A benchmark of a minute as the admin's job, shown to all; nothing where there are jobs already."""
    with database.reading(server.engine) as connection:
        if connection.execute(select(func.count()).select_from(tables.jobs)).scalar():
            return
        name = connection.execute(select(tables.users.c.name).where(tables.users.c.id == 1)).scalar()
    asker = Principal(1, str(name), "admin", frozenset(), frozenset(SCOPES))
    jobs.submit(server, asker, JobSpec("demo", suite=_DEMO, preset="smoke", visibility="all"), "")


def _repeat(ending: threading.Event, seconds: float, act: Callable[[], None]) -> None:
    """Now, and then every so often."""
    while not ending.is_set():
        try:
            act()
        except Exception:
            # A full disk or a database that is away: the next time may do better.
            log.exception("%s: failed; it is tried again", threading.current_thread().name)
        ending.wait(seconds)


def _remove_old(server: Server) -> None:
    retention.apply(server)
    notices.forget_old(server)


def _close_unused(server: Server) -> None:
    server.gates.tidy()
    server.boards.tidy()


def _listen(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family, backlog=512)
    except OSError as error:
        raise SiteError(f"--host {listening.host} --port {listening.port}: {error.strerror}") from None
