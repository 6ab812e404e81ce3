"""The job that this controller itself runs in: `trainmark run` inside salloc or sbatch uses its nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from trainmark.errors import UserError
from trainmark.spec.notation import expand_hosts, split_hosts


class Inherited(msgspec.Struct, frozen=True):
    """A job of somebody else's making: it is used, and never ended."""

    job: str
    hosts: tuple[str, ...]


def current(environ: Mapping[str, str] = os.environ) -> Inherited | None:
    """None outside of a job."""
    job, nodes = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_JOB_NODELIST", "")
    if not job.isdigit() or not nodes:
        return None
    try:
        return Inherited(job, tuple(expand_hosts(split_hosts(nodes), "SLURM_JOB_NODELIST")))
    except UserError:
        return None


def covering(hosts: list[str]) -> Inherited | None:
    """The job this controller runs in, if it has all these nodes."""
    found = current()
    return found if found is not None and set(hosts) <= set(found.hosts) else None
