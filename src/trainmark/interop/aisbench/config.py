"""ais-bench's configuration as a site and a suite: `config.sh`, `config.json` and `modelarts_config.py`.

Nothing of it is run: the Python file is read as a syntax tree, the shell file line by line. Keys go into a file of
their own that only its owner can read. What has no place in a site or suite is named.
"""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trainmark.errors import UserError

_FILES = ("config.sh", "config.json", "modelarts_config.py")
_EXPORT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$")
_LONGEST = 1 << 20
KEYS = "credentials.json"
# Flavors of the seed's service → cards.
_CARDS = {"xlarge": 1, "2xlarge": 2, "4xlarge": 4, "8xlarge": 8}
# Names of ais-bench's hyper-parameters for what our workloads call otherwise.
_PARAMETERS = {"batch_size": "batch", "train_steps": "steps"}
_WORKLOADS = {"bert": "bert", "resnet": "resnet50"}


class Converted(msgspec.Struct):
    site: dict[str, Any]
    suite: dict[str, Any]
    keys: dict[str, str]
    left: list[str]


def convert(folder: Path) -> Converted:
    """UserError when there is nothing to read."""
    found = {name: path for name in _FILES for path in sorted(folder.rglob(name))[:1]}
    if "modelarts_config.py" not in found:
        raise UserError(f"{folder}: no modelarts_config.py in it; name ais-bench's folder code/ or code/config/")
    left: list[str] = []
    groups = _groups(found["modelarts_config.py"], left)
    shell = _exports(found["config.sh"], left) if "config.sh" in found else {}
    version = shell.pop("MODELARTS_VERSION", "V1")
    session = groups.get("session_config_v2" if version == "V2" else "session_config")
    session = session or groups.get("session_config") or groups.get("session_config_v2") or {}
    access = groups.get("access_config", {})
    keys = {
        ours: str(access.pop(theirs, ""))
        for ours, theirs in (("access_key", "access_key"), ("secret_key", "secret_access_key"))
    }
    site = _site(access, session, shell, left)
    suite = _suite(session, shell, site, left)
    if "config.json" in found:
        left += _network_mode(found["config.json"])
    left += [f"config.sh: {name}: trainmark has no such setting" for name in sorted(shell)]
    left += [f"modelarts_config.py: session: {name}: trainmark has no such setting" for name in sorted(session)]
    left += [f"modelarts_config.py: access: {name}: trainmark has no such setting" for name in sorted(access)]
    return Converted(site, suite, keys, left)


def write(made: Converted, folder: Path) -> list[Path]:
    """The files; one that is there already is not replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "site.yaml", folder / "suite.yaml", *([folder / KEYS] if made.keys["access_key"] else [])]
    taken = [path for path in paths if path.exists()]
    if taken:
        raise UserError(f"--output {folder}: {taken[0].name} is there already; name another folder")
    notes = "".join(f"# not taken over: {one}\n" for one in made.left)
    for path, content in zip(paths, (made.site, made.suite), strict=False):
        path.write_text(notes + yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    if len(paths) > 2:
        handle = os.open(paths[2], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as out:
            json.dump(made.keys, out)
    return paths


# ---- reading


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()[: _LONGEST + 1]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _LONGEST:
        raise UserError(f"{path}: longer than {_LONGEST} bytes; it is no configuration")
    return data.decode("utf-8", "replace")


def _groups(path: Path, left: list[str]) -> dict[str, dict[str, Any]]:
    """`NAME = EasyDict({…})`, `NAME = {…}` and `NAME.key = value`."""
    try:
        tree = ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path}: no Python file: {error}") from None
    groups: dict[str, dict[str, Any]] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        place = f"{path.name}:{statement.lineno}"
        if isinstance(target, ast.Name):
            groups.setdefault(target.id, {}).update(_pairs(statement.value, place, left))
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            _keep(groups.setdefault(target.value.id, {}), target.attr, statement.value, place, left)
    return groups


def _pairs(node: ast.expr, place: str, left: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(node, ast.Call):
        for argument in node.args:
            found.update(_pairs(argument, place, left))
        for keyword in node.keywords:
            if keyword.arg is not None:
                _keep(found, keyword.arg, keyword.value, place, left)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                _keep(found, key.value, value, place, left)
    return found


def _keep(found: dict[str, Any], name: str, node: ast.expr, place: str, left: list[str]) -> None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        left.append(f"{place}: {name}: its value cannot be told without running the file")
        return
    found[name] = value


def _exports(path: Path, left: list[str]) -> dict[str, str]:
    found = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        match = _EXPORT.match(line)
        if not match:
            continue
        value = match[2].strip()
        if "$" in value or "`" in value:
            left.append(f"{path.name}:{number}: {match[1]}: its value cannot be told without running the file")
            continue
        found[match[1]] = value.split(" #")[0].strip().strip("'\"")
    return found


# ---- making


def _site(access: dict[str, Any], session: dict[str, Any], shell: dict[str, str], left: list[str]) -> dict[str, Any]:
    server = str(access.pop("server", "") or "")
    endpoints = {name: _endpoint(access.pop(f"{name}_endpoint", None)) for name in ("iam", "obs", "modelarts")}
    endpoints["obs"] = endpoints["obs"] or _endpoint(server)
    launcher: dict[str, Any] = {
        "name": "modelarts",
        "region": str(access.pop("region_name", "") or "REGION"),
        "project": access.pop("project_id", None) or None,
        "endpoints": {name: value for name, value in endpoints.items() if value},
        "credentials": KEYS,
    }
    pool, flavor = session.pop("pool_id", None) or None, session.pop("train_instance_type", None) or None
    if pool and flavor:
        left.append(f"pool_id and train_instance_type ({flavor}): a job has one of them; the pool was taken")
    if pool:
        launcher.update(pool=pool, cards=_CARDS.get(str(flavor).rpartition(".")[2], 8))
    else:
        launcher["flavor"] = flavor or "FLAVOR"
    launcher["nodes"] = int(session.pop("train_instance_count", 1) or 1)
    if shell.pop("SINGLESERVER_MODE", "False") == "True":
        launcher["single_server"] = True
    engine = {"name": session.pop("framework_type", None), "version": session.pop("framework_version", None)}
    launcher["engine"] = {name: str(value or "UNKNOWN") for name, value in engine.items()}
    launcher["code"] = _place(session.pop("code_dir", None))
    launcher["output"] = _place(session.pop("out_base_url", None))
    given = session.pop("parameters", None) or session.pop("hyperparameters", None) or []
    session.pop("hyperparameters", None)
    launcher["parameters"] = {
        str(one.get("name") or one.get("label")): str(one.get("value")) for one in given if isinstance(one, dict)
    }
    launcher["description"] = str(session.pop("job_description_prefix", "") or "")
    levels = {name: shell.pop(name) for name in ("GLOG_v", "ASCEND_GLOBAL_LOG_LEVEL") if name in shell}
    made: dict[str, Any] = {"schema": 1, "name": "modelarts", "launcher": launcher}
    if levels:
        made["env"] = levels
    data = session.pop("inputs", None)
    if data:
        made["data"] = {"dataset": _place(data)}
    for name in ("job_name", "boot_file"):
        if session.pop(name, None):
            left.append(f"{name}: trainmark names its jobs and brings its own boot file")
    for name in ("PYTHON_COMMAND", "RANK_SIZE", "RANK_TABLE_FILE", "NODEINFO_FILE"):
        shell.pop(name, None)  # of the machine that sends the job, or told by the case
    return made


def _suite(session: dict[str, Any], shell: dict[str, str], site: dict[str, Any], left: list[str]) -> dict[str, Any]:
    del session
    launcher = site["launcher"]
    text = json.dumps(launcher["parameters"]) + launcher["code"] + launcher["description"]
    workload = next((ours for theirs, ours in _WORKLOADS.items() if theirs in text.lower()), "resnet50")
    framework = "mindspore" if "mindspore" in launcher["engine"]["version"].lower() else "pytorch"
    flavor = str(launcher.get("flavor", "")).rpartition(".")[2]
    cards = int(launcher.get("cards") or _CARDS.get(flavor) or shell.pop("DEVICE_NUM", 8) or 8)
    shell.pop("DEVICE_NUM", None)
    case = f"{workload}:{framework}:ascend:{launcher['nodes']}:{cards}:1"
    taken = {
        ours: launcher["parameters"][theirs] for theirs, ours in _PARAMETERS.items() if theirs in launcher["parameters"]
    }
    for name in sorted(set(launcher["parameters"]) - set(_PARAMETERS)):
        left.append(f"parameter {name}: handed to the job as it is; trainmark's own programs do not read it")
    made: dict[str, Any] = {"schema": 1, "name": "aisbench", "preset": "full", "cases": [case]}
    numbers = {name: int(value) for name, value in taken.items() if str(value).isdigit()}
    if numbers:
        made["set"] = numbers
    return made


def _network_mode(path: Path) -> list[str]:
    try:
        found = json.loads(_text(path))
    except ValueError:
        return [f"{path.name}: it is no JSON"]
    names = sorted(found) if isinstance(found, dict) else []
    return [f"{path.name}: {name}: of the network mode, which is not taken over" for name in names]


def _endpoint(value: Any) -> str | None:
    if not value:
        return None
    text = str(value).rstrip("/")
    return text if "://" in text else f"https://{text}"


def _place(value: Any) -> str:
    """`/bucket/folder/`, `s3://…` and `obs://…` are the same place."""
    text = re.sub(r"^(s3|obs):/*", "", str(value or "BUCKET/FOLDER")).strip("/")
    return f"obs://{text}/"
