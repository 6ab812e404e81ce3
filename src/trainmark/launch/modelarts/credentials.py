"""The keys that calls are signed with: from the environment, a file that only its owner reads, or the system's keyring.

They are read when a call needs them and handed to the official clients. No record, log, command line or file of a run
holds them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from trainmark import extras
from trainmark.errors import SiteError, UserError
from trainmark.store.files import read_json

ACCESS, SECRET, TOKEN = "HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK", "HUAWEICLOUD_SDK_SECURITY_TOKEN"


class Keys(msgspec.Struct, frozen=True):
    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Keys({self.access_key[:4]}…)"


def load(source: str) -> Keys:
    """SiteError that names the place and the cure."""
    if source == "env":
        return _from_environment()
    if source.startswith("keyring:"):
        return _from_keyring(source.removeprefix("keyring:"))
    return _from_file(Path(source))


def _from_environment() -> Keys:
    missing = [name for name in (ACCESS, SECRET) if not os.environ.get(name)]
    if missing:
        raise SiteError(
            f"keys of the training service: {' and '.join(missing)} not set; export them, or name a file or "
            "`keyring:NAME` in `credentials` of the site"
        )
    return Keys(os.environ[ACCESS], os.environ[SECRET], os.environ.get(TOKEN) or None)


def _from_file(path: Path) -> Keys:
    try:
        found = path.stat()
    except OSError as error:
        raise SiteError(f"keys of the training service: {path}: {error.strerror}") from None
    if found.st_uid not in (0, os.geteuid()) or stat.S_IMODE(found.st_mode) & 0o077:
        raise SiteError(
            f"keys of the training service: {path}: others may read it (mode {stat.S_IMODE(found.st_mode):04o}); "
            f"`chmod 600 {path}`"
        )
    content = read_json(path)
    try:
        return msgspec.convert(content, Keys)
    except msgspec.ValidationError:
        shape = '{"access_key": "…", "secret_key": "…"}'
        raise SiteError(f"keys of the training service: {path}: allowed is {shape}") from None


def _from_keyring(name: str) -> Keys:
    try:
        keyring = extras.load("keyring", "`credentials: keyring:NAME`")
    except UserError as error:
        raise SiteError(str(error)) from None
    access, secret = (keyring.get_password(name, part) for part in ("access_key", "secret_key"))
    if not access or not secret:
        raise SiteError(
            f"keys of the training service: the keyring has no `access_key` and `secret_key` of {name}; "
            f"`keyring set {name} access_key` adds one"
        )
    return Keys(access, secret)
