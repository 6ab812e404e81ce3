"""Accounts of this machine as which jobs of several people run."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from pathlib import Path

from trainmark.errors import SiteError


def check_account(account: str) -> None:
    """SiteError where a job cannot run as this account, or would run as the one that starts it."""
    if os.geteuid() != 0:
        raise SiteError("jobs run as accounts of their own on this machine only when root starts them")
    if shutil.which("setpriv") is None:
        raise SiteError("jobs run as accounts of their own by `setpriv`, which is not here (package util-linux)")
    try:
        found = pwd.getpwnam(account)
    except KeyError:
        raise SiteError(f"there is no account `{account}` on this machine") from None
    if found.pw_uid == 0:
        raise SiteError(f"account `{account}` is root: jobs do not run as root")
    if not os.path.isdir(found.pw_dir):
        raise SiteError(f"account `{account}` has no home: {found.pw_dir} is not there")


def python_of_all() -> str:
    """The Python that runs this, if other accounts can run it, too; else the one that they find."""
    program = Path(sys.executable).absolute()
    places = {place for one in (program, program.resolve()) for place in (one, *one.parents)}
    return str(program) if all(place.stat().st_mode & 0o001 for place in places) else "python3"
