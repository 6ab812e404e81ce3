"""`trainmark login`."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import sys

from trainmark import api_remote
from trainmark.cli import terminal
from trainmark.errors import OK, UserError

EPILOG = """\
Passwords and links are asked for, or read from standard input, a line each; never taken from the command line.
What is kept is a token, in a file that only this account reads. Changing the password ends it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="address of the server")
    parser.add_argument("--user", metavar="NAME", help="name to sign in as (default: this account's)")
    parser.add_argument("--link", action="store_true", help="set a new password by a link that works once")
    parser.add_argument("--forget", action="store_true", help="sign out: forget the token that is kept")


def call(args: argparse.Namespace) -> int:
    url = api_remote.address(args.url)
    if args.forget:
        api_remote.keep_token(url, None)
        return OK
    # As the page that sets a password has it, or what follows `#` there.
    link = _ask("link: ").rpartition("#")[2] if args.link else None
    password = _ask("new password: " if link else "password: ")
    if link and sys.stdin.isatty() and _ask("again: ") != password:
        raise UserError("the two passwords differ")
    label = re.sub(r"[^A-Za-z0-9._-]", "-", f"cli-{os.uname().nodename}")[:64]
    token = api_remote.sign_in(url, args.user or getpass.getuser(), password, link=link, label=label)
    api_remote.keep_token(url, token)
    terminal.line(f"signed in; `trainmark --server {url} list` shows your jobs")
    return OK


def _ask(what: str) -> str:
    found = getpass.getpass(what) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not found:
        raise UserError(f"{what.rstrip(': ')}: nothing was given")
    return found
