"""A folder of its own for each rank: what it writes where it runs is nobody else's, on a shared disk neither."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

CODE, ENV_LOG = "code", "env.log"
_HIDDEN = "***"
# Parts of names, in capitals, whose values are not written down; and beginnings of values that speak for themselves.
_SECRET_NAMES = (
    "TOKEN",
    "SECRET",
    "PASSW",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "SESSION",
    "KEY",
    "SIGNATURE",
)
_SECRET_VALUES = ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "AKIA", "xox", "sk-", "hf_", "eyJ")


def make_workplace(folder: str, rank: int, code: str | None, env: Mapping[str, str]) -> str:
    """`folder`/rankN, with a link to the program's own folder and what the environment was. `folder` has the name of
    its node in it."""
    place = os.path.join(folder, "rank%d" % rank)
    try:
        os.mkdir(place)
        if code:
            os.symlink(code, os.path.join(place, CODE))
    except FileExistsError:
        pass  # a rank that was started again
    descriptor = os.open(os.path.join(place, ENV_LOG), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, shown(env).encode("utf-8", "surrogateescape"))
    finally:
        os.close(descriptor)
    return place


def shown(env: Mapping[str, str]) -> str:
    """One variable a line, sorted; without the values of those that look like secrets."""
    lines = []
    for name in sorted(env):
        value = env[name]
        lines.append("%s=%s\n" % (name, _HIDDEN if is_secret(name, value) else value.replace("\n", "\\n")))
    return "".join(lines)


def is_secret(name: str, value: str) -> bool:
    """Without patterns: `re` alone costs more than everything else here."""
    upper = name.upper()
    for part in _SECRET_NAMES:
        if part in upper:
            return True
    if value.startswith(_SECRET_VALUES) or "-----BEGIN" in value:
        return True
    # A password in an address: scheme://user:password@host
    return "://" in value and "@" in value and ":" in value.split("://", 1)[1].split("@", 1)[0]
