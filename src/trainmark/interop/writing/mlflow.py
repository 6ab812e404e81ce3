"""`export mlflow`: a folder that MLflow opens as its store: an experiment for each suite, a run for each round."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.extras import load
from trainmark.interop.protocol import WriteOnly
from trainmark.interop.writing.curves import points
from trainmark.interop.writing.runs import rounds
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

_ALLOW = "MLFLOW_ALLOW_FILE_STORE"
# What the store takes at once.
_METRICS = 1000
_STATUS = {JobState.SUCCEEDED: "FINISHED", JobState.CANCELLED: "KILLED", JobState.RUNNING: "RUNNING"}


class MLflow(WriteOnly):
    summary = "MLflow: a file store with an experiment for each suite and a run for each round"

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG002
        tracking = load("mlflow.tracking", "export mlflow")
        entities = load("mlflow.entities", "export mlflow")
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise UserError(f"--output {path}: is not empty; MLflow's store is written into a new folder")
            with _files_allowed():
                client = tracking.MlflowClient(tracking_uri=path.resolve().as_uri())
                for run in runs:
                    _run(client, entities, run)
        except OSError as error:
            raise UserError(f"--output {path}: cannot be written: {error.strerror}") from None
        return sorted(file for file in path.rglob("*") if file.is_file())


@contextlib.contextmanager
def _files_allowed() -> Iterator[None]:
    """New versions of MLflow want a database, which their small package has not, or this."""
    before = os.environ.get(_ALLOW)
    os.environ[_ALLOW] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ALLOW]
        else:
            os.environ[_ALLOW] = before


def _run(client: Any, entities: Any, run: RunDir) -> None:
    from trainmark.report.build import build
    from trainmark.report.figures import flag_codes

    report = build(run)
    cases = {case.case: case for case in report.cases}
    known = client.get_experiment_by_name(report.suite)
    experiment = known.experiment_id if known else client.create_experiment(report.suite)
    for done in rounds(run):
        found = list(points(done))
        times = [point.t_ms for point in found] or [run.manifest().created // 1_000_000]
        name = f"{done.case.case} round {done.round}"
        tags = {"mlflow.runName": name, "trainmark.run": run.id, "trainmark.case": done.case.case}
        tags |= {"trainmark.state": str(done.state), "trainmark.reason": done.reason[:5000]}
        tags["trainmark.flags"] = flag_codes(cases[done.case.case].flags)[:5000]
        made = client.create_run(experiment, start_time=min(times), tags=tags).info.run_id
        params = {**done.case.params, "framework": done.case.framework, "device": done.case.device}
        logged = [entities.Param(key, str(value)[:500]) for key, value in params.items()]
        logged += [entities.Param("nnodes", str(len(done.case.nodes))), entities.Param("world", str(done.case.world))]
        client.log_batch(made, params=logged)
        metrics = [entities.Metric(point.name, point.value, point.t_ms, point.step) for point in found]
        for key, figure in cases[done.case.case].measurements.items():
            if figure.value is not None:
                metrics.append(entities.Metric(f"case/{key}", figure.value, max(times), 0))
        for at in range(0, len(metrics), _METRICS):
            client.log_batch(made, metrics=metrics[at : at + _METRICS])
        client.set_terminated(made, _STATUS.get(done.state, "FAILED"), max(times))
