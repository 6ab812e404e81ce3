#!/usr/bin/env python3
"""A second verifier of signatures and digests, written from docs/bundle.md alone. It shares no code with trainmark.

    python verify_bundle.py BUNDLE.tmk [PUBLIC-KEY-HEX]

Standard library and `cryptography`; zstd comes from Python 3.14's standard library or the package `zstandard`. It says
nothing about whether the figures follow from the events: `trainmark verify` does. Exit 0: good, 4: a fault, 2: not a
bundle.
"""

import base64
import hashlib
import io
import json
import os
import sys
import tarfile

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MOST_BYTES, MOST_FILES, MOST_EXPANSION, FREE_BYTES = 8 << 30, 100_000, 2_000, 64 << 20


def opened(path):
    """The tar stream inside."""
    file = open(path, "rb")  # noqa: SIM115  (read by what is returned)
    if file.read(4) != b"\x28\xb5\x2f\xfd":
        raise ValueError("not compressed with zstd")
    file.seek(0)
    try:
        from compression import zstd  # Python 3.14

        return zstd.open(file)
    except ImportError:
        import zstandard

        return zstandard.ZstdDecompressor(max_window_size=64 << 20).stream_reader(file, read_across_frames=False)


def digests(path):
    """Name → (size, SHA-256) of every member, and the content of the small ones that are read."""
    allowed = min(MOST_BYTES, max(FREE_BYTES, os.path.getsize(path) * MOST_EXPANSION))
    found, small = {}, {}
    with tarfile.open(fileobj=opened(path), mode="r|") as tar:
        for info in tar:
            name = info.name
            if not info.isreg() or name.startswith("/") or ".." in name.split("/") or name in found:
                raise ValueError(f"{name!r}: not allowed in a bundle")
            allowed -= info.size
            if allowed < 0 or len(found) >= MOST_FILES:
                raise ValueError("larger than can be true of a bundle of its size")
            content, digest, size = tar.extractfile(info), hashlib.sha256(), 0
            keep = io.BytesIO() if name == "bundle.json" or name.startswith("signatures/") else None
            while block := content.read(1 << 20):
                digest.update(block)
                size += len(block)
                if keep is not None:
                    keep.write(block)
            if size != info.size:
                raise ValueError(f"{name!r}: cut off")
            found[name] = (size, digest.hexdigest())
            if keep is not None:
                small[name] = keep.getvalue()
    return found, small


def root_of(files):
    """RFC 6962's tree; an odd node rises as it is."""
    level = [
        hashlib.sha256(
            b"\x00" + one["path"].encode() + b"\x00" + bytes.fromhex(one["sha256"]) + one["size"].to_bytes(8, "big")
        ).digest()
        for one in files
    ]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + pair[0] + pair[1]).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].hex() if level else hashlib.sha256(b"").hexdigest()


def signature_fault(content, manifest, wanted):
    """Why a signature is not good; the role and key when it is."""
    envelope = json.loads(content)
    payload = base64.b64decode(envelope["payload"], validate=True)
    (signed,) = envelope["signatures"]
    public = bytes.fromhex(signed["publicKey"])
    kind = envelope["payloadType"].encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(base64.b64decode(signed["sig"]), message)
    except InvalidSignature:
        return "the signature is wrong", None
    statement = json.loads(payload)
    if statement["subject"][0]["digest"]["sha256"] != hashlib.sha256(manifest).hexdigest():
        return "the signature is of another bundle", None
    if signed["keyid"] != hashlib.sha256(public).hexdigest():
        return "the key's fingerprint is wrong", None
    if wanted and public.hex() != wanted:
        return "signed with another key", None
    predicate = statement["predicate"]
    role = predicate.get("role") or predicate["buildDefinition"]["internalParameters"]["role"]
    return None, (role, signed["keyid"])


def faults(path, wanted=None):
    """All faults, one text each."""
    members, small = digests(path)
    manifest = small["bundle.json"]
    bundle = json.loads(manifest)
    paths = [one["path"] for one in bundle["files"]]
    if paths != sorted(set(paths)) or root_of(bundle["files"]) != bundle["root"]:
        yield "bundle.json: the list of files does not agree with its root"
    for name in members:
        if name not in paths and name != "bundle.json" and not name.startswith("signatures/"):
            yield f"{name}: not in the list of files"
    for one in bundle["files"]:
        if one["path"] not in members:
            if not one.get("left_out"):
                yield f"{one['path']}: missing"
        elif members[one["path"]] != (one["size"], one["sha256"]):
            yield f"{one['path']}: changed"
    roles = set()
    for name in sorted(small):
        if name.startswith("signatures/"):
            why, who = signature_fault(small[name], manifest, wanted)
            if why:
                yield f"{name}: {why}"
            else:
                roles.add(who[0])
    if "maker" not in roles:
        yield "its maker has not signed it"


def main(arguments):
    try:
        found = list(faults(*arguments))
    except Exception as error:  # whatever is wrong with the file, it is not a bundle
        print(f"{arguments[0]}: not a bundle: {error}")
        return 2
    for one in found:
        print(one)
    print(f"{arguments[0]}: {'NOT good' if found else 'good'}")
    return 4 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:3]))
