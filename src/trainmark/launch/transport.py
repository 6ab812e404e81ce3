"""How orders reach the agent of a node, and how its files come back into its folder here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from trainmark.store.files import write_json
from trainmark.store.rundir import CONTROL


class Transport(Protocol):
    """Of one node. `SharedFolderTransport` is the simplest; `ssh.node.RelayTransport` keeps a connection."""

    def send(self, order: dict[str, Any]) -> None:
        """Brings an order (`control.json`) to the agent, again after every interruption."""

    def fetch(self) -> None:
        """Brings what is new on the node into its folder here; nothing where files arrive by themselves."""


class SharedFolderTransport:
    """The node writes into the folder itself, and looks there for orders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, order: dict[str, Any]) -> None:
        write_json(self._folder / CONTROL, order)

    def fetch(self) -> None:
        """All of it is here already."""
