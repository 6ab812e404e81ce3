"""Signatures as others expect them: an in-toto statement about `bundle.json`, in a DSSE envelope, signed with Ed25519.

The maker's statement is a SLSA provenance: what was run, from which sources, with which inputs. Those of an operator
and an auditor say only who vouches for the bundle.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.trust import keys
from trainmark.trust.archive import canonical
from trainmark.trust.records import MANIFEST, ROLES, SOURCES, BundleManifest, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from trainmark.store.rundir import Manifest

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
ROLE = "urn:trainmark:role:v1"
BUILD_TYPE = "urn:trainmark:run:v1"


class Envelope(msgspec.Struct, frozen=True):
    """DSSE. The key is in it, so that a reader can check the signature before asking whose key that is."""

    payload: str
    payloadType: str  # noqa: N815  (DSSE's name)
    signatures: list[dict[str, str]]


class OpenEnvelope(msgspec.Struct, frozen=True):
    """An envelope whose signature was looked at. `statement` is what it says, whoever said it."""

    signature: Signature
    statement: dict[str, Any]


def provenance(bundle: BundleManifest, manifests: list[Manifest]) -> dict[str, Any]:
    """The predicate of the maker's statement."""
    sources = [one for one in bundle.files if one.path.startswith(SOURCES)]
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "runs": [
                    {
                        "run": one.run,
                        "suite": one.plan.suite,
                        "division": one.plan.division,
                        "seed": one.plan.seed,
                        "cases": [{"case": case.case, "fingerprint": case.fingerprint} for case in one.plan.cases],
                    }
                    for one in manifests
                ]
            },
            "internalParameters": {"root": bundle.root, "role": "maker"},
            "resolvedDependencies": [{"name": one.path, "digest": {"sha256": one.sha256}} for one in sources],
        },
        "runDetails": {
            "builder": {"id": f"urn:trainmark:{bundle.trainmark}"},
            "metadata": {"invocationId": " ".join(bundle.runs)},
        },
    }


def sign(
    key: Ed25519PrivateKey, role: str, manifest: bytes, predicate: dict[str, Any] | None = None
) -> tuple[str, bytes]:
    """Path and content of a signature. The same key, role and bundle give the same bytes."""
    statement = {
        "_type": STATEMENT,
        "subject": _subject(manifest),
        "predicateType": PROVENANCE if predicate is not None else ROLE,
        "predicate": predicate if predicate is not None else {"role": role},
    }
    payload = canonical(statement)
    public = keys.raw(key.public_key())
    signed = {
        "keyid": keys.fingerprint(public),
        "publicKey": public.hex(),
        "sig": base64.b64encode(key.sign(_encoded(payload))).decode(),
    }
    envelope = Envelope(base64.b64encode(payload).decode(), PAYLOAD_TYPE, [signed])
    return f"signatures/{role}-{signed['keyid'][:16]}.json", canonical(envelope)


def open_envelope(content: bytes, manifest: bytes, known: dict[str, str]) -> OpenEnvelope | None:
    """What a signature is worth; None when it cannot even be read. `known`: fingerprints and names of trusted keys."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        envelope = msgspec.json.decode(content, type=Envelope)
        payload = base64.b64decode(envelope.payload, validate=True)
        signed = envelope.signatures[0]
        public = bytes.fromhex(signed["publicKey"])
        statement: dict[str, Any] = msgspec.json.decode(payload, type=dict[str, Any])
        role = _role(statement)
        valid = (
            # Of two values with one key some programs would take the first, others the last.
            canonical(envelope) == content
            and canonical(statement) == payload
            and envelope.payloadType == PAYLOAD_TYPE
            and len(envelope.signatures) == 1
            and statement["_type"] == STATEMENT
            and role in ROLES
            and statement["subject"] == _subject(manifest)
            and signed["keyid"] == keys.fingerprint(public)
        )
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(
                base64.b64decode(signed["sig"], validate=True), _encoded(payload)
            )
        except InvalidSignature:
            valid = False
    except (msgspec.DecodeError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    key = keys.fingerprint(public)
    return OpenEnvelope(Signature(role, key, valid, known.get(key)), statement)


def _subject(manifest: bytes) -> list[dict[str, Any]]:
    return [{"name": MANIFEST, "digest": {"sha256": hashlib.sha256(manifest).hexdigest()}}]


def _role(statement: dict[str, Any]) -> str:
    """The maker's is a provenance, and nobody else's is; what is neither has no role."""
    predicate, kind = statement["predicate"], statement["predicateType"]
    if kind == PROVENANCE:
        return "maker" if predicate["buildDefinition"]["internalParameters"]["role"] == "maker" else ""
    role = str(predicate["role"])
    return role if kind == ROLE and role != "maker" else ""


def _encoded(payload: bytes) -> bytes:
    """What DSSE signs: the type and the payload with their lengths."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
