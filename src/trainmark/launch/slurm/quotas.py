"""What accounts and users of a Slurm cluster may use, shown and set by `sacctmgr`. Slurm enforces it where its
`AccountingStorageEnforce` has `limits`."""

from __future__ import annotations

from trainmark.launch.protocol import Quota
from trainmark.launch.slurm import options as slurm_options
from trainmark.launch.slurm.queue import call
from trainmark.spec.site import Site

_FORMAT = "account,user,maxjobs,maxsubmit,maxwall,grptres"


def listed(site: Site) -> list[Quota]:
    return [_read(line) for line in _sacctmgr(site, "-n", "-P", "show", "assoc", f"format={_FORMAT}").splitlines()]


def put(site: Site, quota: Quota) -> Quota:
    """The account, and the user in it, are made if there are none. What is None has no limit."""
    known = {(one.account, one.user) for one in listed(site)}
    if (quota.account, "") not in known:
        _sacctmgr(site, "-i", "add", "account", quota.account)
    if quota.user and (quota.account, quota.user) not in known:
        _sacctmgr(site, "-i", "add", "user", quota.user, f"account={quota.account}")
    old = next((one for one in listed(site) if (one.account, one.user) == (quota.account, quota.user)), quota)
    resources = {**dict.fromkeys(old.resources, -1), **quota.resources}
    values = [f"MaxJobs={_number(quota.max_jobs)}", f"MaxSubmitJobs={_number(quota.max_submitted)}"]
    values.append(f"MaxWall={_number(quota.max_minutes)}")
    if resources:
        values.append("GrpTRES=" + ",".join(f"{name}={count}" for name, count in sorted(resources.items())))
    what = ["user", quota.user, "where", f"account={quota.account}"] if quota.user else ["account", quota.account]
    _sacctmgr(site, "-i", "modify", *what, "set", *values)
    return next(one for one in listed(site) if (one.account, one.user) == (quota.account, quota.user))


def _sacctmgr(site: Site, *words: str) -> str:
    return call(["sacctmgr", *words], slurm_options.of(site).conf)


def _number(value: int | None) -> int:
    """Slurm takes -1 for no limit."""
    return -1 if value is None else value


def _read(line: str) -> Quota:
    account, user, jobs, submitted, wall, tres = line.split("|")
    pairs = [pair.partition("=") for pair in tres.split(",") if pair]
    resources = {name: int(count) for name, _, count in pairs if count.isdigit()}
    return Quota(account, user, _whole(jobs), _whole(submitted), _minutes(wall), resources)


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _minutes(text: str) -> int | None:
    """`days-hours:minutes:seconds`, the days only where there are any."""
    if not text:
        return None
    days, _, rest = text.rpartition("-")
    hours, minutes, _ = (int(part) for part in rest.split(":"))
    return int(days or 0) * 1440 + hours * 60 + minutes
