"""Encryption with the server's key: AES-256-GCM, a key of its own for each text, bound to what the text is for."""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_SALT, _NONCE = 16, 12


def seal(key: bytes, purpose: str, value: bytes) -> bytes:
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    return salt + nonce + AESGCM(_derived(key, salt)).encrypt(nonce, value, purpose.encode())


def unseal(key: bytes, purpose: str, sealed: bytes) -> bytes | None:
    """None: it was changed, is for something else, or was sealed with another key."""
    salt, nonce, rest = sealed[:_SALT], sealed[_SALT : _SALT + _NONCE], sealed[_SALT + _NONCE :]
    try:
        return AESGCM(_derived(key, salt)).decrypt(nonce, rest, purpose.encode())
    except (InvalidTag, ValueError):
        return None


def seal_text(key: bytes, purpose: str, value: bytes) -> str:
    """The same, for a cookie."""
    return base64.urlsafe_b64encode(seal(key, purpose, value)).decode()


def open_text(key: bytes, purpose: str, text: str) -> bytes | None:
    try:
        return unseal(key, purpose, base64.urlsafe_b64decode(text.encode("ascii", "replace")))
    except ValueError:
        return None


def _derived(key: bytes, salt: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt, b"trainmark server").derive(key)
