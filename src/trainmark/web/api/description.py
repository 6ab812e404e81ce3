"""What `/openapi.json` says beyond what is read from the routes: several types of one answer, and which answer leads to
which request."""

from __future__ import annotations

from typing import Any

from litestar import Litestar

_TEXTS = ("application/json", "text/plain", "text/html", "text/markdown", "text/csv")
# Operations that give a text in the format that was asked for, and those that give bytes, whole or a range of them.
_IN_FORMATS = ("run_report", "job_report", "shared_report", "compare_runs", "case_history")
_BYTES = ("get_run_file", "get_work_file", "get_file")
# From an operation's answer, by its status: the request that it leads to, its parameter, and where that stands.
_JOB, _RUN, _SHARE = "$response.body#/job/id", "$response.body#/run/run", "$response.body#/link"
_LINKS: dict[tuple[str, str], list[tuple[str, dict[str, str]]]] = {
    ("submit_job", "201"): [
        *((name, {"job": _JOB}) for name in ("get_job", "job_status", "job_events", "change_job", "stop_job")),
        *((name, {"job": _JOB}) for name in ("clone_job", "list_job_files", "job_logs", "job_report")),
        *((name, {"run": _JOB}) for name in ("get_run", "make_share", "put_pin")),
    ],
    ("clone_job", "201"): [("stop_job", {"job": _JOB})],
    ("list_runs", "200"): [("get_run", {"run": "$response.body#/runs/0/run"})],
    ("get_run", "200"): [
        *((name, {"run": _RUN}) for name in ("run_report", "run_curves", "make_share", "list_shares", "put_pin")),
        ("compare_runs", {"a": _RUN, "b": _RUN}),
    ],
    ("make_share", "201"): [
        *((name, {"link": _SHARE}) for name in ("get_shared", "shared_report", "shared_curves")),
        ("end_share", {"run": "$response.body#/share/run", "share": "$response.body#/share/id"}),
    ],
    ("add_user", "201"): [
        *((name, {"user": "$response.body#/user/id"}) for name in ("change_user", "link_user")),
    ],
    ("make_token", "201"): [("end_token", {"token": "$response.body#/token/id"})],
    ("put_group", "200"): [("remove_group", {"name": "$response.body#/name"})],
    ("put_template", "200"): [("remove_template", {"name": "$response.body#/name"})],
    ("put_upload", "200"): [
        *((name, {"path": "$response.body#/path"}) for name in ("get_file", "get_upload", "remove_file")),
    ],
}


def describe(app: Litestar) -> dict[str, Any]:
    made = app.openapi_schema.to_schema()
    known = {one["operationId"] for ways in made["paths"].values() for one in ways.values()}
    for ways in made["paths"].values():
        for one in ways.values():
            _describe(one, known)
    return {name: _loosened(value) for name, value in made.items()}


def _loosened(value: Any) -> Any:
    """A value may fit several of the types that a field takes: 0 is an integer and a number."""
    if isinstance(value, dict):
        return {"anyOf" if name == "oneOf" else name: _loosened(one) for name, one in value.items()}
    return [_loosened(one) for one in value] if isinstance(value, list) else value


def _describe(operation: dict[str, Any], known: set[str]) -> None:
    name, answers = operation["operationId"], operation["responses"]
    if name in _IN_FORMATS:
        types = {kind: {"schema": {} if kind == "application/json" else {"type": "string"}} for kind in _TEXTS}
        answers["200"]["content"] = types
    if name in _BYTES:
        answers["200"]["content"] = {"application/octet-stream": {"schema": {}}}
        answers["206"] = {**answers["200"], "description": "The range that was asked for"}
    if name == "put_upload":
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
    for status, answer in answers.items():
        links = _LINKS.get((name, status), [])
        if links:
            answer["links"] = {
                f"{name}_{target}": {"operationId": target, "parameters": parameters}
                for target, parameters in links
                if target in known
            }
