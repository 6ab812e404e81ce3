"""Keys of this user: own ones to sign with, and those of others that are trusted. Ed25519, by `cryptography`.

$XDG_CONFIG_HOME/trainmark/keys/NAME.pem      a key of one's own, mode 0600
$XDG_CONFIG_HOME/trainmark/trusted/NAME.pub   a key of somebody else
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.agent import private
from trainmark.errors import UserError, did_you_mean
from trainmark.extras import need

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN, _OTHERS = "keys", "trusted"


class Known(msgspec.Struct, frozen=True):
    """A key that this user has or trusts."""

    name: str
    fingerprint: str
    own: bool
    path: str


def home() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "trainmark"


def _kept(name: str) -> Path:
    """A folder of keys. UserError where another account could have put some of its own."""
    folder = home() / name
    try:
        private.keep_folder(str(folder.absolute()))
    except OSError as error:
        raise UserError(
            f"keys in {folder} are not used: {error.strerror}; `chmod go-w {folder}` if it is yours"
        ) from None
    return folder


def fingerprint(public: bytes) -> str:
    """SHA-256 of the 32 bytes of a public key."""
    return hashlib.sha256(public).hexdigest()


def create(name: str, passphrase: str | None = None) -> Known:
    """A new key of one's own. One that is there is never replaced."""
    need("trust", "a key", "cryptography")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder = _kept(_OWN)
    path = folder / f"{_checked(name)}.pem"
    cipher = forms.BestAvailableEncryption(passphrase.encode()) if passphrase else forms.NoEncryption()
    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, cipher)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UserError(f"{path}: there is a key `{name}` already; choose another name") from None
    with os.fdopen(handle, "wb") as out:
        out.write(content)
    public = raw(key.public_key())
    path.with_suffix(".pub").write_text(_line(public, name) + "\n")
    return Known(name, fingerprint(public), True, str(path))


def load(name: str, passphrase: str | None = None) -> Ed25519PrivateKey:
    """A key of one's own. It must belong to this user and be closed to others."""
    need("trust", "a key", "cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = home() / _OWN / f"{_checked(name)}.pem"
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            content = file.read(65_536)
    except FileNotFoundError:
        known = [one.name for one in listed() if one.own]
        raise UserError(
            f"no key `{name}`{did_you_mean(name, known)}; `trainmark key create {name}` makes one"
        ) from None
    if seen.st_uid != os.geteuid() or stat.S_IMODE(seen.st_mode) & 0o077:
        raise UserError(f"{path}: others can read this key; `chmod 600 {path}`, or make a new one if they may have")
    try:
        key = load_pem_private_key(content, passphrase.encode() if passphrase else None)
    except TypeError:
        wanted = "asks for a passphrase (TRAINMARK_PASSPHRASE_FILE)" if not passphrase else "has no passphrase"
        raise UserError(f"{path}: this key {wanted}") from None
    except ValueError:
        raise UserError(f"{path}: cannot be opened: a wrong passphrase, or not a key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{path}: not an Ed25519 key")
    return key


def has_passphrase(name: str) -> bool:
    """Whether a key of one's own must be opened with one."""
    with contextlib.suppress(OSError):
        return b"ENCRYPTED" in (home() / _OWN / f"{_checked(name)}.pem").read_bytes()
    return False


def raw(public: Ed25519PublicKey) -> bytes:
    from cryptography.hazmat.primitives import serialization as forms

    return public.public_bytes(forms.Encoding.Raw, forms.PublicFormat.Raw)


def public_line(name: str) -> str:
    """What one gives to others: `trainmark-ed25519 HEX NAME`."""
    for one in (_OWN, _OTHERS):
        path = home() / one / f"{_checked(name)}{'.pem' if one == _OWN else '.pub'}"
        if path.is_file():
            return _line(_public(path), name)
    known = [one.name for one in listed()]
    raise UserError(f"no key `{name}`{did_you_mean(name, known)}; `trainmark key list` shows all")


def public(name: str) -> bytes:
    """The 32 bytes of a public key, own or trusted."""
    return bytes.fromhex(public_line(name).split()[1])


def _line(public: bytes, name: str) -> str:
    return f"trainmark-ed25519 {public.hex()} {name}"


def trust(name: str, line: str) -> Known:
    """Keeps somebody's public key under a name of one's own choice."""
    public = _parsed(line)
    if public is None:
        raise UserError("a public key is one line, `trainmark-ed25519 HEX NAME`: what `trainmark key show` prints")
    folder = _kept(_OTHERS)
    path = folder / f"{_checked(name)}.pub"
    if path.exists() and _parsed(path.read_text()) != public:
        raise UserError(f"{path}: another key has this name; remove that file first, or choose another name")
    path.write_text(_line(public, name) + "\n")
    return Known(name, fingerprint(public), False, str(path))


def listed() -> list[Known]:
    """All keys of this user, own ones first."""
    found = []
    for folder, suffix in ((_OWN, ".pem"), (_OTHERS, ".pub")):
        if not (home() / folder).exists():
            continue
        for path in sorted(_kept(folder).glob(f"*{suffix}")):
            public = _public(path)
            found.append(Known(path.stem, fingerprint(public) if public else "", folder == _OWN, str(path)))
    return found


def names() -> dict[str, str]:
    """Fingerprint → name."""
    return {one.fingerprint: one.name for one in reversed(listed()) if one.fingerprint}


def _public(path: Path) -> bytes:
    """The public key of either kind of file. Own keys keep it beside the private one, which may need a passphrase."""
    if path.suffix == ".pub":
        return _parsed(path.read_text(errors="replace")) or b""
    beside = path.with_suffix(".pub")
    return (_parsed(beside.read_text(errors="replace")) if beside.is_file() else None) or b""


def _parsed(line: str) -> bytes | None:
    words = line.split()
    if len(words) < 2 or words[0] != "trainmark-ed25519" or not re.fullmatch("[0-9a-f]{64}", words[1]):
        return None
    return bytes.fromhex(words[1])


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UserError(f"key `{name}`: a name has letters, digits, `.`, `_` and `-` only, 64 at most")
    return name
