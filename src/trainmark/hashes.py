"""SHA-256 from its C core: `hashlib` brings a whole cryptography library along, milliseconds of every command."""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and later
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256


def sha256_hex(data: bytes) -> str:
    return str(sha256(data).hexdigest())
