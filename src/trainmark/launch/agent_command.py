"""How an agent is started on a node: inside a container, or with environment modules. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trainmark.devices.protocol import REGISTRY, Device, container_flags
from trainmark.errors import UserError
from trainmark.spec.site import Build, Container
from trainmark.spec.yamlfile import Location

_RECIPES = ("Dockerfile", "Containerfile")
LABEL = "trainmark"


class ContainerCommand(msgspec.Struct, frozen=True):
    engine: str
    name: str
    image: str
    argv: list[str]


def check_container(asked: Container, engines: tuple[str, ...], launcher: str, where: Location) -> None:
    """UserError for an image that is none, or an engine that the launcher does not run."""
    image = asked.image
    if isinstance(image, str) and image.startswith("-"):
        raise UserError(f"{where.at('image')}: found {image!r}, which looks like an option")
    if isinstance(image, Build) and not any((Path(image.build) / name).is_file() for name in _RECIPES):
        raise UserError(f"{where.at('image', 'build')}: no {' or '.join(_RECIPES)} in {image.build}")
    if asked.engine not in engines:
        allowed = " or ".join(engines) or "none"
        raise UserError(f"{where.at('engine')}: found {asked.engine!r}, allowed with launcher `{launcher}`: {allowed}")


def in_container(
    asked: Container, plan: dict[str, Any], agent: list[str], work: str, image: str, shared: str | None = None
) -> ContainerCommand:
    """`engine run …`. Removed by the engine itself when it ends, named after the attempt, and never pulled."""
    name = f"{LABEL}-{plan['token'][:16]}-{plan['node']}"
    argv = [asked.engine, "run", "--rm", "--pull=never", f"--name={name}"]
    for key in ("run", "token"):
        argv.append(f"--label={LABEL}.{key}={plan[key]}")
    ipc = asked.ipc or ("private" if asked.shm_size else "host")
    argv += [f"--network={asked.network}", f"--ipc={ipc}"]
    if asked.runtime:
        argv.append(f"--runtime={asked.runtime}")
    if asked.shm_size and ipc != "host":  # one engine passes over the contradiction, another refuses it
        argv.append(f"--shm-size={asked.shm_size}")
    # What it writes must be the account's own, or nobody could collect and remove it.
    argv.append(f"--user={asked.user or '%TRAINMARK_UID%:%TRAINMARK_GID%'}")
    argv += [f"--cap-add={capability}" for capability in asked.capabilities]
    argv += [f"--device={device}" for device in asked.devices]
    handed, limits = _of_device(asked, plan)
    argv += handed
    argv += [f"--ulimit={limit}={value}" for limit, value in {**limits, **asked.ulimits}.items()]
    argv.append(f"--volume={work}:{work}")
    data = plan["config"].get("data")
    if data and data.startswith("/"):
        argv.append(f"--volume={data}:{data}:ro")
    if shared:
        argv.append(f"--volume={shared}:{shared}")
    argv += [f"--volume={mount if ':' in mount else f'{mount}:{mount}'}" for mount in asked.mounts]
    argv += asked.options
    return ContainerCommand(asked.engine, name, image, [*argv, "--entrypoint=", image, *agent])


def _of_device(asked: Container, plan: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Flags and limits by which the case's devices get into the container, unless the site hands them in itself."""
    vendor = (plan.get("device") or {}).get("vendor")
    if not vendor or vendor == "cpu" or asked.devices or asked.runtime or not REGISTRY.knows(vendor):
        return [], {}
    device: Device = REGISTRY.get(vendor)
    flags = container_flags(device, len(plan["ranks"]))
    return ([] if set(flags) & set(asked.options) else flags), dict(device.ulimits)


# The modules are this text's arguments, never part of it.
_LOAD = (
    'for module in "${@:2:$1}"; do module load "$module" || '
    '{ echo "module load $module: it failed" >&2; exit 97; }; done; shift $(($1 + 1)); exec "$@"'
)


def with_modules(modules: list[str], argv: list[str]) -> list[str]:
    """Environment modules exist only in a login shell."""
    return ["bash", "-lc", _LOAD, "trainmark", str(len(modules)), *modules, *argv] if modules else argv
