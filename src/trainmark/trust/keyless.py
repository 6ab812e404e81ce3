"""Keyless signatures, by sigstore: an identity at a provider of identities instead of a key.

They stand beside a bundle, in a file that sigstore's own tools write and read, too. Making one needs sigstore's
services; checking one needs no network, only what the package `sigstore` brings.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.extras import need, present
from trainmark.reasons import reason
from trainmark.trust.records import Finding, Signature, fault, remark

SUFFIX = ".sigstore.json"
ROLE = "keyless"
_MOST = 1 << 20
# The provider that vouched for an identity, in a certificate of sigstore's.
_ISSUER = "1.3.6.1.4.1.57264.1.1"


class Identity(msgspec.Struct, frozen=True):
    """Who has signed, and who says that it was them."""

    name: str
    issuer: str


def beside(bundle: Path) -> Path:
    return bundle.with_name(bundle.name + SUFFIX)


def sign(bundle: Path) -> tuple[Path, str]:
    """Signs with the identity of a CI job, or asks for one in a browser. Where the signature is, and who signed."""
    need("sigstore", "key sign --keyless")
    from sigstore import errors, oidc
    from sigstore.models import ClientTrustConfig
    from sigstore.sign import SigningContext

    try:
        trust = ClientTrustConfig.production()
        ambient = oidc.detect_credential()
        provider = trust.signing_config.get_oidc_url()
        token = oidc.IdentityToken(ambient) if ambient else oidc.Issuer(provider).identity_token()
        with SigningContext.from_trust_config(trust).signer(token) as signer:
            made = signer.sign_artifact(_hashed(bundle))
    except (errors.Error, oidc.IssuerError, oidc.ExpiredIdentity, OSError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{bundle}: not signed: sigstore's services cannot be used from here ({why}); "
            "without --keyless a key signs, which needs no network"
        ) from None
    target = beside(bundle)
    target.write_text(made.to_json(), "utf-8")
    return target, _identity(made.signing_certificate).name


def look(bundle: Path) -> tuple[list[Signature], list[Finding]]:
    """What the file beside a bundle is worth, if there is one. Whose identity is expected, the reader must know."""
    file = beside(bundle)
    if not file.is_file():
        return [], []
    if not present("sigstore"):
        return [], [remark(reason("keyless-not-checked"), file.name)]
    try:
        found = check(bundle, file)
    except UserError as error:
        return [], [fault(reason("keyless-wrong", why=str(error)), file.name)]
    signed = Signature(ROLE, found.issuer, True, found.name)
    return [signed], [remark(reason("keyless-signed", name=found.name, issuer=found.issuer), file.name)]


def check(bundle: Path, file: Path) -> Identity:
    """UserError when it is no good signature of this bundle."""
    from sigstore import errors
    from sigstore.models import Bundle
    from sigstore.verify import policy

    # It warns that nobody in particular is expected to have signed: the identity is told to the reader instead.
    logging.getLogger("sigstore").setLevel(logging.ERROR)
    try:
        if file.stat().st_size > _MOST:
            raise UserError("larger than a signature")
        made = Bundle.from_json(file.read_bytes())
        _verifier().verify_artifact(_hashed(bundle), made, policy.UnsafeNoOp())
        return _identity(made.signing_certificate)
    except (errors.Error, ValueError, LookupError, TypeError) as error:
        raise UserError(" ".join(str(error).split())[:200] or type(error).__name__) from None


def _verifier() -> Any:
    from sigstore.verify import Verifier

    return Verifier.production(offline=True)


def _hashed(path: Path) -> Any:
    from sigstore.hashes import HashAlgorithm, Hashed

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return Hashed(algorithm=HashAlgorithm.SHA2_256, digest=digest)


def _identity(certificate: Any) -> Identity:
    from cryptography.x509 import ObjectIdentifier, SubjectAlternativeName

    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    issuer = certificate.extensions.get_extension_for_oid(ObjectIdentifier(_ISSUER)).value.value
    return Identity(str(next(iter(names)).value), issuer.decode("utf-8", "replace"))
