"""A worker of a training job becomes a node: one of its processes is the agent, whatever started them.

An engine may start the boot file once for each card, by torchrun, or once. The process of the lowest card runs the
agent, which starts all ranks of the node; the others wait for it and end as it ends. Everything comes and goes through
the folders that the service keeps in step with its object store: the worker needs no keys.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, List

from trainmark.agent import private
from trainmark.agent.attempt import run
from trainmark.agent.contain.sweep import sweep
from trainmark.agent.events.shipper import complete
from trainmark.agent.events.spools import TEMPORARY
from trainmark.agent.files import read_json, replace_json
from trainmark.agent.placeholders import fill_hosts
from trainmark.agent.reasons import reason

# Channels of the job, handed over as variables.
PLAN, OUT, DATA = "trainmark_plan", "trainmark_out", "data_url"
# In plans; filled in here.
OUT_MARK, CODE_MARK, DATA_MARK, OWN_MARK = "%OUT%", "%CODE%", "%DATA%", "%OWN%"
# Beside the folders of nodes: how the agent ended, for the processes of the other cards.
EXIT = "exit.json"
# What engines tell each process of its card, in the order in which it is believed.
_CARDS = ("LOCAL_RANK", "ASCEND_DEVICE_ID", "DEVICE_ID")
# Of the one process, and wrong for the ranks that the agent starts.
_OF_A_CARD = (
    *("RANK_ID", "DEVICE_ID", "ASCEND_DEVICE_ID", "RANK_SIZE", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_STARTERS = ("TORCHELASTIC_", "PET_")
_TABLE_SECONDS = 600.0
_LOOK_SECONDS = 0.5
_FAILED = 1


def worker(code: str, *arguments: str) -> int:
    """The verb: `code` is the folder of the boot file; the arguments are the job's parameters."""
    variables = os.environ
    missing = [name for name in (PLAN, OUT, "VC_TASK_INDEX", "VC_WORKER_HOSTS") if not variables.get(name)]
    if missing:
        sys.stderr.write("trainmark: the service did not set %s\n" % ", ".join(missing))
        return _FAILED
    index, hosts = int(variables["VC_TASK_INDEX"]), variables["VC_WORKER_HOSTS"].split(",")
    out = os.path.join(variables[OUT].rstrip("/"), "node%d" % index)
    if not _is_lowest_card(variables.get("RANK_TABLE_FILE")):
        return _await_agent(out)
    table = variables.get("RANK_TABLE_FILE")
    if table and not _table_is_complete(table):
        sys.stderr.write("trainmark: %s was not completed within %g s\n" % (table, _TABLE_SECONDS))
        return _FAILED
    try:
        plan = _plan(index, hosts, code, list(arguments))
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.stderr.write("trainmark: the plan of node %d cannot be used: %r\n" % (index, error))
        return _FAILED
    for name in list(variables):
        if name in _OF_A_CARD or name.startswith(_STARTERS):
            del variables[name]
    variables["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), variables.get("PATH", os.defpath)])
    return _run(plan, out)


def _run(plan: Dict[str, Any], out: str) -> int:
    own = plan["own"]
    private.keep_folder(own)
    path = os.path.join(own, "node.json")
    replace_json(path, plan, mode=private.FILE)
    code = run(path)
    # What a killed agent would leave to somebody else's clearing up has nobody else here.
    result = read_json(os.path.join(out, "result.json"))
    containment = result.get("containment") if isinstance(result, dict) else None
    if not isinstance(containment, dict) or containment.get("left") != 0:
        sweep(plan["token"])
    try:
        complete(out)
    except OSError as error:
        sys.stderr.write("trainmark: events stay in their spool: %s\n" % error)
    # A job counts as failed, and its other workers are ended, when one of its processes fails.
    state = result.get("state") if isinstance(result, dict) else None
    code = code or (0 if state == "SUCCEEDED" else _FAILED)
    replace_json(os.path.join(out, EXIT), {"code": code, "state": state})
    sys.stdout.write("trainmark: node %d ended: %s\n" % (plan["node"], state))
    return code


def _plan(index: int, hosts: List[str], code: str, arguments: List[str]) -> Dict[str, Any]:
    with open(os.path.join(os.environ[PLAN], "node%d.json" % index), "rb") as file:
        plan = json.load(file)
    own = os.path.join(os.environ.get("TMPDIR") or TEMPORARY, "trainmark-%s-%d" % (plan["token"][:16], index))
    marks = {OUT_MARK: os.environ[OUT].rstrip("/"), CODE_MARK: code, DATA_MARK: os.environ.get(DATA, ""), OWN_MARK: own}
    plan = fill_hosts(_filled(plan, marks), hosts)
    plan["own"] = plan["spool"] = own
    plan["env"]["TRAINMARK_JOB_ARGUMENTS"] = json.dumps(arguments)
    if os.environ.get("TRAINMARK_EMULATED"):
        plan["warnings"] = [*(plan.get("warnings") or ()), reason("emulated", service=os.environ["TRAINMARK_EMULATED"])]
    return plan


def _filled(value: Any, marks: Dict[str, str]) -> Any:
    if isinstance(value, str):
        for mark, text in marks.items():
            value = value.replace(mark, text)
        return value
    if isinstance(value, list):
        return [_filled(one, marks) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, marks) for name, one in value.items()}
    return value


def _card() -> int | None:
    for name in _CARDS:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None


def _is_lowest_card(table: str | None) -> bool:
    """Whether this process is the one that becomes the agent; true where only one was started."""
    card = _card()
    return card is None or card == min(_cards_here(table), default=0)


def _cards_here(table: str | None) -> List[int]:
    """The cards of this worker by the rank table that the engine hands over; none where there is no such table."""
    found = read_json(table) if table and os.path.isfile(table) else None
    if os.environ.get("LOCAL_RANK") or not isinstance(found, dict):
        return []
    servers = found.get("server_list") or []
    own = [server for server in servers if server.get("server_id") == os.environ.get("MA_CURRENT_IP")]
    return [int(device["device_id"]) for server in own for device in server.get("device") or []]


def _table_is_complete(table: str) -> bool:
    path = os.path.join(table, "jobstart_hccl.json") if os.path.isdir(table) else table
    deadline = time.monotonic() + _TABLE_SECONDS
    while time.monotonic() < deadline:
        found = read_json(path)
        if not os.path.exists(path) or (isinstance(found, dict) and found.get("status", "completed") == "completed"):
            return True  # workers without cards have a name for a table, and none there
        time.sleep(_LOOK_SECONDS)
    return False


def _await_agent(out: str) -> int:
    """For the processes of the other cards."""
    path = os.path.join(out, EXIT)
    while True:
        found = read_json(path)
        if isinstance(found, dict):
            return int(found.get("code", _FAILED))
        time.sleep(_LOOK_SECONDS)
