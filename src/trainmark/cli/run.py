"""`trainmark run`."""

from __future__ import annotations

import argparse
import sys

from trainmark.cli import common, drive
from trainmark.devices.protocol import device_of
from trainmark.errors import STOPPED, SiteError
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.spec import suite_cases

EPILOG = """\
examples:
  trainmark run quick                                  this machine in a few minutes
  trainmark run mnist:pytorch:cpu:1:2:3                one case: 1 node, 2 processes, 3 rounds
  trainmark run my-suite.yaml --set batch=64 --json    a suite of your own, result as JSON
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser)
    common.add_runs(parser)
    drive.add_options(parser)
    parser.add_argument("--no-check", action="store_true", help="do not look at the site's hosts before the start")


def call(args: argparse.Namespace) -> int:
    loaded, site = common.load_suite(args), common.load_site(args)
    wanted = suite_cases.wanted_batches(loaded)
    if wanted:
        from trainmark.cli import fit
        from trainmark.run.fit import Stopped

        try:
            loaded = fit.found(loaded, site, args, wanted)
        except Stopped:
            return STOPPED
    plan = common.make_plan(args, loaded, site)
    common.check_runs(plan, args)
    if launcher_of(plan.site).this_machine:
        _check_devices(plan)
        _check_torch(plan)
        _check_rank_table(plan)
    elif not args.no_check:
        check_site(plan)
    run = drive.create(plan, args)
    return drive.drive(run, plan, args)


def _check_devices(plan: Plan) -> None:
    """Ranks that share a device would be measured as something else than what the case says."""
    for case in plan.cases:
        here = device_of(case.vendor, case.device, plan.site.name).count_here()
        if here is not None and not case.open and here < case.id.nproc:
            raise SiteError(f"case `{case.case}` needs {case.id.nproc} {case.vendor} devices; there are {here} here")


def _check_torch(plan: Plan) -> None:
    """Frameworks that have environments were looked for when their Python was chosen; this one has none."""
    cases = [case for case in plan.cases if case.id.framework == "pytorch" and not case.open]
    for python, case in {case.nodes[0].ranks[0].argv[0]: case for case in cases}.items():
        from trainmark import environments

        if not environments.has(python, "torch", case.env):
            raise SiteError(
                f"case `{case.case}`: pytorch is not installed in {python}; `pip install 'trainmark[torch]'` adds it "
                "to trainmark's own Python, or name one that has it in the site: `python: /path/to/python`"
            )


def _check_rank_table(plan: Plan) -> None:
    if plan.rank_table is None:
        return
    from trainmark.launch.local.check import rank_table

    found = rank_table(plan.rank_table, plan.site.hosts[0])
    if not found.good:
        raise SiteError(f"site `{plan.site.name}`: rank_table: {found.found}; {found.cure}")


def check_site(plan: Plan) -> None:
    """The hosts this run needs, before anything is started or written."""
    from trainmark.cli import doctor

    found = launcher_of(plan.site).check(plan.site, plan)
    if doctor.bad(found):
        sys.stderr.write(doctor.text(doctor.bad(found)))
        raise SiteError(f"site `{plan.site.name}` cannot be used as it is; `--no-check` starts all the same")
