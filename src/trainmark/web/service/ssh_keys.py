"""Public keys of users, by which they enter their own jobs."""

from __future__ import annotations

import base64
import binascii
import re
import time
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, delete, func, insert, select, update

from trainmark.errors import UserError
from trainmark.web.server import Server
from trainmark.web.service import audit, database
from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import ssh_keys

PublicKey = Annotated[str, Meta(min_length=1, max_length=8192)]
MOST_KEYS = 20
_KINDS = (
    *("ssh-ed25519", "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com", "ssh-rsa"),
    *("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
)


class SshKey(msgspec.Struct, frozen=True):
    name: str
    key: str
    created: float


def listed(connection: Connection, asker: Principal) -> list[SshKey]:
    asked = select(ssh_keys).where(ssh_keys.c.user_id == asker.id).order_by(ssh_keys.c.name)
    return [SshKey(row.name, row.key, row.created) for row in connection.execute(asked)]


def of_user(server: Server, asker: Principal) -> list[str]:
    with database.reading(server.engine) as connection:
        return [one.key for one in listed(connection, asker)]


def put(server: Server, asker: Principal, name: str, key: str, address: str) -> SshKey:
    values = {"key": checked(key), "created": time.time()}
    own = (ssh_keys.c.user_id == asker.id, ssh_keys.c.name == name)
    with database.writing(server.engine) as connection:
        if connection.execute(update(ssh_keys).where(*own).values(**values)).rowcount == 0:
            count = select(func.count()).select_from(ssh_keys).where(ssh_keys.c.user_id == asker.id)
            if (connection.execute(count).scalar() or 0) >= MOST_KEYS:
                raise Conflict(f"you may keep {MOST_KEYS} public keys; remove some")
            connection.execute(insert(ssh_keys).values(user_id=asker.id, name=name, **values))
        audit.note(connection, asker.name, "key.put", name, address)
    return SshKey(name, str(values["key"]), float(values["created"]))  # type: ignore[arg-type]


def remove(server: Server, asker: Principal, name: str, address: str) -> None:
    own = (ssh_keys.c.user_id == asker.id, ssh_keys.c.name == name)
    with database.writing(server.engine) as connection:
        if connection.execute(delete(ssh_keys).where(*own)).rowcount != 1:
            raise NotFound(f"no public key `{name}` of yours")
        audit.note(connection, asker.name, "key.remove", name, address)


def checked(text: str) -> str:
    """`KIND BASE64`, without options and comment: options of a line in authorized_keys would run programs."""
    found = re.fullmatch(r"\s*([a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})([ \t][^\r\n]*)?\s*", text)
    if "PRIVATE KEY" in text:
        raise UserError("key: this is a private key; keep it to yourself, and send the file that ends in .pub")
    if found is None or found[1] not in _KINDS:
        raise UserError("key: allowed is one line of a .pub file, such as `ssh-ed25519 AAAA…`")
    try:
        raw = base64.b64decode(found[2], validate=True)
    except binascii.Error:
        raw = b""
    kind = found[1].encode()
    if raw[4 : 4 + len(kind)] != kind or raw[:4] != len(kind).to_bytes(4, "big"):
        raise UserError("key: this is no public key of the kind that it names")
    return f"{found[1]} {found[2]}"
