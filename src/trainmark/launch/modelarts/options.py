"""What a site says of its training service."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from trainmark.errors import UserError
from trainmark.spec.site import Site, beside, options_location
from trainmark.spec.yamlfile import Location

_PLACE = re.compile(r"obs://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*)$")
_SECONDS = {"poll_seconds": 0.2, "retry_seconds": 1, "queue_seconds": 1, "lost_seconds": 30, "call_seconds": 1}
# Cards → the flavor that dedicated pools call so.
POOL_FLAVORS = {1: "xlarge", 2: "2xlarge", 4: "4xlarge", 8: "8xlarge", 16: "16xlarge"}


class Endpoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Addresses of the services; by default those of the region in the public cloud."""

    modelarts: str | None = None
    obs: str | None = None
    iam: str | None = None


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An engine that the service brings, as in its own list."""

    name: str
    version: str


class PrepareWorker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done in each worker before the boot file. `script` is sourced as `ma-pre-start.sh`; `files` (files or
    folders) lie beside it; `requirements` are installed by pip."""

    script: str | None = None
    files: list[str] = []
    requirements: str | None = None


class ModelArtsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`launcher: {name: modelarts, …}`."""

    region: str
    # Where code goes, and where output and logs of jobs go: `obs://bucket/folder/`.
    code: str
    output: str
    project: str | None = None
    endpoints: Endpoints = Endpoints()
    # Names that no DNS knows → addresses, as in a computing centre of one's own.
    addresses: dict[str, str] = {}
    # A file of mode 0600, `env` (HUAWEICLOUD_SDK_AK and HUAWEICLOUD_SDK_SK) or `keyring:NAME`.
    credentials: str = "env"
    # One of the two. With a pool, `cards` says how many each worker gets.
    flavor: str | None = None
    pool: str | None = None
    cards: int = 8
    nodes: int = 1
    # Each node trains alone, all of them at the same time.
    single_server: bool = False
    # An engine of the service, or an image.
    engine: Engine | None = None
    image: str | None = None
    # What must be found below `data`, which is in the site: `data: {NAME: obs://bucket/folder/}`.
    data_layout: tuple[str, ...] = ("train/", "val/")
    parameters: dict[str, str] = {}
    environment: dict[str, str] = {}
    prepare: PrepareWorker = PrepareWorker()
    description: str = ""
    workspace: str = "0"
    # The service ends a job after so many hours, whatever happens here.
    most_hours: int | None = None
    # Whether output stays in the store once all of it is here.
    keep_output: bool = False
    poll_seconds: float = 5.0
    call_seconds: float = 30.0
    # A call that fails is repeated for so long.
    retry_seconds: float = 300.0
    queue_seconds: float = 86400.0
    lost_seconds: float = 300.0


def of(site: Site) -> ModelArtsOptions:
    return msgspec.convert(site.launcher_options, ModelArtsOptions)


def split(place: str) -> tuple[str, str]:
    """`obs://bucket/folder/` → bucket and key."""
    bucket, _, key = place.removeprefix("obs://").partition("/")
    return bucket, key


def endpoint(options: ModelArtsOptions, service: str) -> str:
    return str(getattr(options.endpoints, service) or f"https://{service}.{options.region}.myhuaweicloud.com").rstrip(
        "/"
    )


def configured(site: Site, where: Location) -> Site:
    options, place = of(site), options_location(site, where)
    _check_resources(options, place)
    _check_places(options, site, place, where)
    _check_numbers(options, place)
    if site.hosts and any(site.hosts):
        raise UserError(f"{where.at('hosts')}: launcher `modelarts` has none; say how many in {place.at('nodes')}")
    for name in ("shared_dir", "container", "prepare", "interface"):
        if getattr(site, name) is not None:
            raise UserError(f"{where.at(name)}: launcher `modelarts` has none; see `image` and `prepare` in {place}")
    options = msgspec.structs.replace(options, credentials=_credentials(options.credentials, where))
    options = msgspec.structs.replace(options, prepare=_prepared(options.prepare, place.at("prepare"), where))
    return msgspec.structs.replace(
        site, hosts=[""] * options.nodes, launcher_options=msgspec.to_builtins(options), modules=[]
    )


def _check_resources(options: ModelArtsOptions, place: Location) -> None:
    if options.pool and options.flavor:
        raise UserError(
            f"{place.at('pool')}: a job runs in a pool or on a public flavor, not in both; "
            f"take out `pool` or `flavor` ({options.flavor})"
        )
    if not options.pool and not options.flavor:
        raise UserError(f"{place.at('flavor')}: missing; name a public flavor, or a resource pool in `pool`")
    if options.pool and options.cards not in POOL_FLAVORS:
        raise UserError(
            f"{place.at('cards')}: found {options.cards}, allowed with a pool is {', '.join(map(str, POOL_FLAVORS))}"
        )
    if (options.engine is None) == (options.image is None):
        raise UserError(f"{place.at('engine')}: a job has an engine or an image; give one of `engine` and `image`")


def _check_places(options: ModelArtsOptions, site: Site, place: Location, where: Location) -> None:
    for name in ("code", "output"):
        _check_place(getattr(options, name), place.at(name))
    for name, value in site.data.items():
        if value.startswith("obs:"):
            _check_place(value, where.at("data", name))
    for name, address in msgspec.to_builtins(options.endpoints).items():
        found = urlsplit(address or "https://ok")
        if found.scheme not in ("http", "https") or not found.hostname or found.path.strip("/"):
            raise UserError(
                f"{place.at('endpoints', name)}: found {address!r}, allowed is https://HOST or https://HOST:PORT"
            )
        if found.hostname in options.addresses and found.scheme != "https":
            raise UserError(f"{place.at('addresses', found.hostname)}: needs an endpoint of https, found {address!r}")


def _check_place(text: str, where: Location) -> None:
    if not _PLACE.match(text) or not text.endswith("/") or "//" in text.removeprefix("obs://"):
        raise UserError(f"{where}: found {text!r}, allowed is obs://BUCKET/FOLDER/ with a slash at its end")


def _check_numbers(options: ModelArtsOptions, place: Location) -> None:
    for name in ("nodes", "cards"):
        if getattr(options, name) < 1:
            raise UserError(f"{place.at(name)}: found {getattr(options, name)}, allowed is 1 and more")
    for name, least in _SECONDS.items():
        if getattr(options, name) < least:
            raise UserError(f"{place.at(name)}: found {getattr(options, name):g}, allowed is {least} and more")
    for name in options.environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or (name.startswith("MA_") and name != "MA_RUN_METHOD"):
            raise UserError(f"{place.at('environment', name)}: allowed are names that do not begin with MA_")


def _credentials(text: str, where: Location) -> str:
    """A file by its whole path: runs are resumed from other folders."""
    return text if text == "env" or text.startswith(("keyring:", "/")) else beside(where, text)


def _prepared(prepare: PrepareWorker, place: Location, where: Location) -> PrepareWorker:
    def here(name: str) -> str:
        path = name if name.startswith("/") else beside(where, name)
        if not os.access(path, os.R_OK):
            raise UserError(f"{place}: {path} is not there, or cannot be read")
        return path

    return PrepareWorker(
        script=prepare.script and here(prepare.script),
        files=[here(name) for name in prepare.files],
        requirements=prepare.requirements and here(prepare.requirements),
    )


def names_of(folder: Path) -> list[Path]:
    """Every file below a folder, or the file itself; links to elsewhere are no files of it."""
    if folder.is_file():
        return [folder]
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def of_plan(about: dict[str, Any]) -> ModelArtsOptions:
    """As a node plan has them."""
    return msgspec.convert(about["options"], ModelArtsOptions)
