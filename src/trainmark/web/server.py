"""What a running server consists of, handed to whoever needs it: no part is found by a global name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sqlalchemy import Engine

from trainmark.web.home import Home
from trainmark.web.service import database
from trainmark.web.service.boards import Boards
from trainmark.web.service.figures import Figures
from trainmark.web.service.gates import Gates
from trainmark.web.service.rules import Rules, load_rules
from trainmark.web.service.search import Searches

if TYPE_CHECKING:
    from trainmark.web.queue.keeper import Keeper


@dataclass(frozen=True)
class Settings:
    """How it was started."""

    home: Path
    database: str | None = None
    # Of the server's key; None: in its folder, made at the first start.
    key_file: Path | None = None
    # Whether browsers reach it by https: cookies are then sent by nothing else.
    secure: bool = False
    root_path: str = ""
    # Requests of one principal or address: as many at once, and as many a second for long.
    burst: int = 400
    per_second: float = 100.0
    # Seconds in which a whole request must have arrived.
    body_seconds: float = 30.0
    # After which whoever follows something comes back, and is asked again who they are.
    stream_seconds: float = 900.0


class Server:
    """A plain class: the web framework hands it to routes as it is."""

    def __init__(self, settings: Settings, home: Home, engine: Engine, rules: Rules, key: bytes) -> None:
        self.settings, self.home, self.engine, self.rules = settings, home, engine, rules
        # Secrets of users are encrypted with it.
        self.key = key
        # None: nobody looks after the queue, as in tests of other things.
        self.keeper: Keeper | None = None
        # What runs beside jobs, and TensorBoards on what they left.
        self.gates, self.boards = Gates(), Boards(home.boards)
        # Of runs that have ended, for the leaderboard.
        self.figures = Figures(home.path / "figures.jsonl")
        # AutoML experiments that somebody looks at.
        self.searches = Searches()
        # Connections that follow something; and the jobs that they follow, by number, as long as somebody does.
        self.followers = 0
        self.watched: WeakValueDictionary[int, Any] = WeakValueDictionary()
        # Of providers of identities, by issuer: until when it is believed, and what it says.
        self.descriptions: dict[str, tuple[float, object]] = {}


def open_server(settings: Settings) -> Server:
    """The folder and the database, ready to be served. Starts nothing."""
    home = Home(settings.home)
    home.prepare()
    engine = database.connect(settings.database) if settings.database else database.of_file(home.database)
    database.migrate(engine)
    if not settings.database:
        home.database.chmod(0o600)
    return Server(settings, home, engine, load_rules(home.rules), home.key(settings.key_file))
