"""What only this account can have written. Whatever could make us run something is read only if it is that.

A folder that nobody else can enter protects everything in it, whatever the modes below and whatever the umask.
"""

from __future__ import annotations

import os
import stat

# Names or numbers of accounts whose files count as our own: for NFS servers that change owners, for service accounts.
# `any` is for containers, where all accounts are one person's.
TRUSTED_OWNERS = "TRAINMARK_TRUSTED_OWNERS"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
FOLDER, FILE = 0o700, 0o600


def make_folder(path: str) -> None:
    """A new folder of our own. FileExistsError when there is something of that name: whoever made it may not be us."""
    os.mkdir(path, FOLDER)


def keep_folder(path: str) -> None:
    """The folder, made if it is not there, and private if it was made here; OSError where it is not ours."""
    _make_above(path)
    try:
        os.mkdir(path, FOLDER)
    except FileExistsError:
        why = why_foreign(path)
        if why is not None:
            raise PermissionError(1, why, path) from None


def _make_above(path: str) -> None:
    """Missing folders above `path`, where others may look and not write: `os.makedirs` leaves those to the umask."""
    above = os.path.dirname(path)
    if not above or os.path.isdir(above):
        return
    _make_above(above)
    try:
        os.mkdir(above, 0o755)
    except FileExistsError:
        pass  # another process was faster


def why_foreign(path: str, sticky: bool = False) -> str | None:
    """Why `path` may hold what another account wrote, in a few words; None when it cannot. OSError when there is
    nothing. Root can write anything anyway, so what root owns is trusted. `sticky`: a folder like /tmp will do, because
    what is in it is looked at, too."""
    link = os.lstat(path)
    found = os.stat(path) if stat.S_ISLNK(link.st_mode) else link
    why = why_foreign_owner(link.st_uid) or why_foreign_owner(found.st_uid)
    if why is not None:
        return why
    if found.st_mode & _OTHERS_WRITE and not (sticky and found.st_mode & stat.S_ISVTX):
        return "others can write to it (mode %04o)" % stat.S_IMODE(found.st_mode)
    return None


def why_foreign_owner(uid: int) -> str | None:
    trusted = os.environ.get(TRUSTED_OWNERS, "").replace(",", " ").split()
    known = {0, os.geteuid(), *(_number(word) for word in trusted if word != "any")}
    return None if uid in known or "any" in trusted else "it belongs to %s, not to this account" % _name(uid)


def is_ours(path: str) -> bool:
    try:
        return why_foreign(path) is None
    except OSError:
        return False


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    import pwd

    try:
        return pwd.getpwnam(word).pw_uid
    except KeyError:
        return os.geteuid()  # an account that does not exist here owns nothing here


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid
