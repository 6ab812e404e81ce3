#!/usr/bin/env python3
"""A second verifier of signatures and digests, written from docs/bundle.md alone. It shares no code with trainmark.

    python verify_bundle.py BUNDLE.tmk [PUBLIC-KEY-HEX]

Standard library and `cryptography`; zstd comes from Python 3.14's standard library or the package `zstandard`. It does
not tell whether figures follow from events: `trainmark verify` does. Exit 0: good, 4: a fault, 2: not a bundle."""

import base64
import hashlib
import json
import os
import sys
import tarfile
import unicodedata

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

try:
    from compression.zstd import open as unpacked  # Python 3.14
except ImportError:
    from zstandard import open as unpacked

MOST_BYTES, MOST_FILES, MOST_EXPANSION, FREE_BYTES = 8 << 30, 100_000, 2_000, 64 << 20
ROLES = {"https://slsa.dev/provenance/v1": ("maker",), "urn:trainmark:role:v1": ("operator", "auditor")}


def must(holds, why):
    if not holds:
        raise ValueError(why)


def opened(path):
    """The tar stream inside, which must be one frame of zstd that ends where the file does."""
    with open(path, "rb") as file:
        head, block = file.read(5), 0
        must(head[:4] == b"\x28\xb5\x2f\xfd", "not compressed with zstd")
        single = head[4] >> 5 & 1
        at = 6 - single + (0, 1, 2, 4)[head[4] & 3] + (single, 2, 4, 8)[head[4] >> 6]
        while not block & 1:
            file.seek(at)
            block = int.from_bytes(take(file, 3), "little")
            at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        must(at + 4 * (head[4] >> 2 & 1) == os.path.getsize(path), "something follows its end")
    return unpacked(path)


def take(stream, size, digest=None, keep=True):
    parts = []
    while size:
        piece = stream.read(min(size, 1 << 20))
        must(piece, "cut off")
        size -= len(piece)
        parts += [piece] if keep else []
        digest and digest.update(piece)
    return b"".join(parts)


def digests(path):
    """Name → (size, SHA-256) of every member, and the content of those that are read. Only plain files are allowed."""
    allowed = min(MOST_BYTES, max(FREE_BYTES, os.path.getsize(path) * MOST_EXPANSION))
    found, small, stream = {}, {}, opened(path)
    while any(header := take(stream, 512)):
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        name = info.name
        if info.type == tarfile.XHDTYPE:
            must(info.size <= 1_100, "a header is longer than any name")
            text = take(stream, info.size + -info.size % 512)[: info.size]
            must(text.startswith(b"%d path=" % info.size) and text.endswith(b"\n"), "a header that is no name")
            name = text[:-1].split(b"=", 1)[1].decode()
            info = tarfile.TarInfo.frombuf(take(stream, 512), "utf-8", "strict")
        parts, look, size = name.split("/"), unicodedata.normalize("NFKC", name), info.size
        must(info.type == tarfile.REGTYPE and not info.linkname and size >= 0, f"{name!r}: not a plain file")
        plain = name.isprintable() and "\\" not in name and unicodedata.is_normalized("NFC", name)
        short = len(name.encode()) <= 1024 and len(parts) <= 15 and (name.isascii() or parts[0] != "runs")
        must(plain and short and not {"", ".", ".."} & set(parts) and look not in found, f"{name!r}: not allowed")
        allowed -= size
        digest, keep = hashlib.sha256(), name == "bundle.json" or name.startswith("signatures/")
        must(allowed >= 0 and len(found) < MOST_FILES and not (keep and size > FREE_BYTES), "larger than can be true")
        small[name] = take(stream, size, digest, keep)
        found[look] = (name, size, digest.hexdigest())
        must(not any(take(stream, -size % 512)), "something between two files")
    must(not any(rest := stream.read(20_480)) and len(rest) <= 10_240, "something follows its end")
    return {name: about for name, *about in found.values()}, {name: one for name, one in small.items() if one}


def parsed(content):
    """JSON in the one spelling that is allowed: so no key stands in it twice."""
    found = json.loads(content)
    must(json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() == content, "JSON in another spelling")
    return found


def root_of(files):
    parts = [(one["path"].encode(), bytes.fromhex(one["sha256"]), one["size"].to_bytes(8, "big")) for one in files]
    level = [hashlib.sha256(b"\x00" + path + b"\x00" + digest + size).digest() for path, digest, size in parts]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + pair[0] + pair[1]).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].hex() if level else hashlib.sha256(b"").hexdigest()


def role_of(content, manifest, bundle, wanted):
    """Who has signed; fails when it is no good signature of this bundle."""
    envelope = parsed(content)
    payload, (signed,) = base64.b64decode(envelope["payload"], validate=True), envelope["signatures"]
    public, kind = bytes.fromhex(signed["publicKey"]), envelope["payloadType"].encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    Ed25519PublicKey.from_public_bytes(public).verify(base64.b64decode(signed["sig"], validate=True), message)
    statement, subject = parsed(payload), {"sha256": hashlib.sha256(manifest).hexdigest()}
    must(statement["subject"] == [{"name": "bundle.json", "digest": subject}], "of another bundle")
    must(signed["keyid"] == hashlib.sha256(public).hexdigest() and wanted in (None, public.hex()), "of another key")
    role, made = statement["predicate"].get("role"), statement["predicate"].get("buildDefinition")
    if made:
        role, sources = made["internalParameters"]["role"], made["resolvedDependencies"]
        expected = [(one["path"], one["sha256"]) for one in bundle["files"] if one["path"].startswith("sources/")]
        told = [(one["name"], one["digest"]["sha256"]) for one in sources]
        must(told == expected and made["internalParameters"]["root"] == bundle["root"], "it tells of something else")
    must(role in ROLES[statement["predicateType"]], "no role")
    return role


def faults(path, wanted=None):
    found, small = digests(path)
    bundle, roles = parsed(small["bundle.json"]), set()
    must(bundle["schema"] == 1, "another schema")
    listed = {one["path"]: one for one in bundle["files"]}
    if [one["path"] for one in bundle["files"]] != sorted(listed) or root_of(bundle["files"]) != bundle["root"]:
        yield "bundle.json: the list of files does not agree with its root"
    yield from (f"{name}: not in the list of files" for name in found.keys() - listed.keys() - small.keys())
    for name, one in listed.items():
        left_out = one.get("left_out") and name.endswith(".log") and name not in found
        if not left_out and found.get(name) != [one["size"], one["sha256"]]:
            yield f"{name}: changed or missing"
    for name in sorted(small.keys() - {"bundle.json"}):
        try:
            roles.add(role_of(small[name], small["bundle.json"], bundle, wanted))
        except Exception as error:  # whatever is wrong with it
            yield f"{name}: not a good signature: {error or 'it is wrong'}"
    if "maker" not in roles:
        yield "its maker has not signed it"


if __name__ == "__main__":
    try:
        wrong = list(faults(*sys.argv[1:3]))
    except Exception as error:  # whatever is wrong with the file, it is not a bundle
        sys.exit(print(f"{sys.argv[1]}: not a bundle: {error}") or 2)
    print(*wrong, f"{sys.argv[1]}: {'NOT good' if wrong else 'good'}", sep="\n")
    sys.exit(4 if wrong else 0)
