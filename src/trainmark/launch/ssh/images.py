"""Images and packages on the hosts: pulled, or built once and copied, and prepared before a round needs them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from trainmark.launch import agent_command
from trainmark.launch.ssh.connection import Connection, Reply
from trainmark.launch.ssh.connections import Connections
from trainmark.launch.trees import Tree, pack
from trainmark.spec.site import Build, Container, Site

_SECONDS = 7200.0
_CHUNK = 4 << 20
# Read once: all rounds of a run use the same files.
_packed = functools.cache(pack)


class ImageWants(msgspec.Struct, frozen=True):
    """What a site wants to be on each host before anything starts there; `tree` holds the files it is made from."""

    engine: str
    image: str
    pull: str
    build: str | None
    prepare: dict[str, Any] | None
    trees: tuple[Tree, ...]


def image_name(asked: Container) -> str:
    """A built image is called by the content of its folder."""
    if isinstance(asked.image, Build):
        return f"trainmark/built:{_packed((asked.image.build,)).name[:16]}"
    return asked.image


def wanted(site: Site, work: str) -> ImageWants:
    """Pure but for reading the files."""
    asked, trees, build = site.container, [], None
    if asked and isinstance(asked.image, Build):
        tree = _packed((asked.image.build,))
        build = f"{work}/trees/{tree.name}/{tree.places[asked.image.build]}"
        trees.append(tree)
    prepare = None
    if site.prepare:
        tree = _prepare_tree(site)
        trees.append(tree)
        prepare = _prepare(site, tree, work)
    return ImageWants(
        engine=asked.engine if asked else "",
        image=image_name(asked) if asked else "",
        pull=asked.pull if asked else "never",
        build=build,
        prepare=prepare,
        trees=tuple(trees),
    )


def prepared_dir(site: Site, work: str) -> str | None:
    """Where the ranks find what was prepared: named by the files, the image and the Python it is for."""
    if not site.prepare:
        return None
    parts = [_prepare_tree(site).name, image_name(site.container) if site.container else "", site.python or ""]
    parts += [site.prepare.index or "", *site.prepare.options]
    return f"{work}/prepared/{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def _prepare_tree(site: Site) -> Tree:
    """Beside the requirements may lie wheels they name."""
    asked = site.prepare
    folder = [str(Path(asked.requirements).parent)] if asked and asked.requirements else []
    return _packed((*folder, *(asked.extensions if asked else ())))


def _prepare(site: Site, tree: Tree, work: str) -> dict[str, Any]:
    """pip, run the way the ranks will be: in their container, by their Python."""
    asked, target = site.prepare, prepared_dir(site, work)
    draft = f"{target}.part"
    top = f"{work}/trees/{tree.name}"
    argv = [site.python or "python3", "-m", "pip", "install", "--target", draft, "--disable-pip-version-check"]
    if asked and asked.index:
        argv += ["--index-url", asked.index]
    argv += asked.options if asked else []
    if asked and asked.requirements:
        file = Path(asked.requirements)
        place = f"{top}/{tree.places[str(file.parent)]}"
        argv += ["--find-links", place, "--requirement", f"{place}/{file.name}"]
    argv += [f"{top}/{tree.places[folder]}" for folder in (asked.extensions if asked else ())]
    if site.container:
        blank = {"token": tree.name, "node": "prepare", "run": "prepare", "config": {}}
        argv = agent_command.in_container(site.container, blank, argv, work, image_name(site.container)).argv
    return {"target": target, "draft": draft, "argv": argv}


class Provider:
    """Sees to it that hosts have what is wanted; each host is asked once per controller."""

    def __init__(
        self, connections: Connections, ship: Callable[[list[Connection], Tree], None], note: Callable[[str], None]
    ) -> None:
        self._connections, self._ship, self._note = connections, ship, note
        self._done: set[tuple[int, str]] = set()

    def provide(self, links: list[Connection], want: ImageWants) -> None:
        key = f"{want.engine} {want.image} {want.prepare and want.prepare['target']}"
        new = [link for link in links if (id(link), key) not in self._done]
        if not new:
            return
        for tree in want.trees:
            self._ship(new, tree)
        if want.image and (want.build or want.pull == "missing"):
            self._images(new, want)
        if want.prepare:
            self._note(f"preparing packages on {_names(new)}")
            self._wait([(link, link.ask("prepare", **want.prepare)) for link in new], "prepare packages")
        self._done.update((id(link), key) for link in new)

    def _images(self, links: list[Connection], want: ImageWants) -> None:
        looked = [(link, link.ask("image", engine=want.engine, image=want.image)) for link in links]
        self._wait(looked, "look for the image")
        missing = [link for link, reply in looked if not (reply.value or {}).get("identity")]
        if not missing:
            return
        if not want.build:
            self._note(f"pulling {want.image} on {_names(missing)}")
            self._wait([(link, link.ask("pull", engine=want.engine, image=want.image)) for link in missing], "pull it")
            return
        having = [link for link in links if link not in missing]
        if not having:
            having = [missing.pop(0)]
            self._note(f"building {want.image} on {_names(having)}")
            built = having[0].ask("build", engine=want.engine, image=want.image, folder=want.build)
            self._wait([(having[0], built)], "build the image")
        if missing:
            self._copy(having[0], missing, want)

    def _copy(self, source: Connection, targets: list[Connection], want: ImageWants) -> None:
        """Through this controller, a few megabytes at a time: the hosts need not know each other."""
        self._note(f"copying {want.image} from {source.reach.host} to {_names(targets)}")
        name = want.image.rpartition(":")[2]
        saved = source.ask("save", engine=want.engine, image=want.image, name=name)
        self._wait([(source, saved)], "save the image")
        length = int((saved.value or {})["length"])
        for at in range(0, length, _CHUNK):
            piece = source.ask("read", name=name, at=at, count=_CHUNK)
            self._wait([(source, piece)], "read the image")
            self._wait(
                [(link, link.ask("write", piece.payload, name=name, at=at)) for link in targets], "take the image"
            )
        taken = [(link, link.ask("load", engine=want.engine, name=name, take=True)) for link in targets]
        self._wait([*taken, (source, source.ask("load", engine=want.engine, name=name, take=False))], "load the image")

    def _wait(self, replies: list[tuple[Connection, Reply]], what: str) -> None:
        self._connections.need(replies, what, _SECONDS)


def _names(links: list[Connection]) -> str:
    names = [link.reach.host for link in links]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
