"""What every line of a leaderboard has, whatever was measured: the run, who made it, and its proof."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from trainmark.i18n.texts import Text, label
from trainmark.report import document as doc
from trainmark.store.rundir import Manifest
from trainmark.trust import keyless
from trainmark.trust.records import Verification

BUNDLES, VERIFIED = "bundles", "verified"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`maker`: of the maker's key what this user calls it, or the beginning of its fingerprint; `trusted`: whether this
    user has a name for it. An identity that signed without a key is nobody whom this user trusts: `issuer` vouches."""

    case: str
    system: str
    bundle: str
    run: str
    created: int
    remarks: int
    maker: str
    trusted: bool
    issuer: str = ""

    def headline(self) -> str:
        raise NotImplementedError


def entry(manifest: Manifest, bundle: str, checked: Verification) -> Entry:
    """A key that is trusted says most of who made it, an identity less, a key that nobody knows least."""
    valid = [one for one in checked.signatures if one.valid]
    by_key = [one for one in valid if one.role == "maker"]
    trusted = [one for one in by_key if one.name is not None]
    by_identity = [one for one in valid if one.role == keyless.ROLE]
    maker = (trusted or by_identity or by_key)[0]
    return of_run(
        manifest,
        bundle,
        maker.name or maker.key[:16],
        trusted=bool(trusted),
        issuer="" if maker.role != keyless.ROLE else maker.key,
        remarks=len(checked.findings),
    )


def of_run(
    manifest: Manifest, bundle: str, maker: str, *, trusted: bool = True, issuer: str = "", remarks: int = 0
) -> Entry:
    """`bundle`: what its proof is found by."""
    return Entry(
        case="",
        system=_system(manifest),
        bundle=bundle,
        run=manifest.run,
        created=manifest.created,
        remarks=remarks,
        maker=maker,
        trusted=trusted,
        issuer=issuer,
    )


def shared(found: Entry) -> dict[str, Any]:
    """The fields that a line of any kind begins with."""
    return {name: getattr(found, name) for name in Entry.__struct_fields__}


def _system(manifest: Manifest) -> str:
    """The machine by its processor; a site of several hosts by its name. Whoever made the bundle chose these words."""
    facts = manifest.provenance.get("facts")
    cpu = facts.get("cpu") if isinstance(facts, dict) else None
    model = cpu.get("model") if isinstance(cpu, dict) else None
    threads = cpu.get("threads") if isinstance(cpu, dict) else None
    name = manifest.plan.site.name if len(manifest.plan.site.hosts) > 1 or not model else f"{model} × {threads}"
    return "".join(letter for letter in name if letter.isprintable())[:80]


def proof(row: Entry) -> doc.Inline:
    return doc.Stack(
        doc.Several(
            (
                doc.Reference(label("board.bundle"), f"{BUNDLES}/{quote(row.bundle)}"),
                doc.Reference(_verified(row), page(row)),
            )
        ),
        _signed(row),
    )


def _signed(row: Entry) -> Text:
    if row.issuer:
        return label("board.signed_identity", row.maker, row.issuer)
    return label("board.signed" if row.trusted else "board.signed_unknown", row.maker)


def page(row: Entry) -> str:
    return f"{VERIFIED}/{quote(row.bundle)}.html"


def _verified(row: Entry) -> Text:
    return label("board.remarks", str(row.remarks)) if row.remarks else label("board.verified")
