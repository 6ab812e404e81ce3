"""`trainmark key`: keys to sign bundles with, and those of others that are trusted."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from trainmark.cli import terminal
from trainmark.errors import UserError
from trainmark.extras import need

PASSPHRASE = "TRAINMARK_PASSPHRASE_FILE"  # noqa: S105  (the name of a variable)

EPILOG = f"""\
examples:
  trainmark key create                         a key of your own, called `default`
  trainmark key show > me.pub                  the public half, to give to others
  trainmark key trust alice alice.pub          bundles that she signs are signed by `alice` from now on
  trainmark key sign result.tmk --role auditor one more signature on a bundle that you have verified
  trainmark key sign result.tmk --keyless      by your account at a provider of identities (sigstore; needs a network)
A passphrase is asked for at the terminal (`--passphrase`), or read from the file that {PASSPHRASE} names; never
from the command line.
"""


def add_key(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--key", metavar="NAME", help=what)


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="create|show|trust|list|sign")
    create = verbs.add_parser("create", help="make a key of your own")
    create.add_argument("name", nargs="?", default="default", metavar="NAME", help="what it is called (default)")
    create.add_argument("--passphrase", action="store_true", help="protect it with a passphrase")
    show = verbs.add_parser("show", help="print the public half of a key")
    show.add_argument("name", nargs="?", default="default", metavar="NAME", help="of which key (default)")
    trust = verbs.add_parser("trust", help="trust somebody's public key")
    trust.add_argument("name", metavar="NAME", help="what you call its owner")
    trust.add_argument("file", type=Path, metavar="FILE", help="what its owner got by `trainmark key show`; - reads it")
    verbs.add_parser("list", help="list all keys")
    sign = verbs.add_parser("sign", help="add a signature to a bundle")
    sign.add_argument("bundle", type=Path, metavar="BUNDLE", help="the bundle; verify it first")
    sign.add_argument("--role", help="maker, operator or auditor (default: auditor)")
    sign.add_argument(
        "--keyless",
        action="store_true",
        help="sign with an identity by sigstore's services instead of a key; the signature is a file beside the bundle",
    )
    sign.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there (default: in its place)")
    add_key(sign, "the key to sign with (default: `default`)")


def call(args: argparse.Namespace) -> int:
    need("trust", "key", "cryptography")
    from trainmark.trust import bundle, keys

    if args.what == "create":
        made = keys.create(args.name, _asked(twice=True) if args.passphrase else None)
        terminal.line(f"{made.path}: key `{made.name}`, fingerprint {made.fingerprint}")
        terminal.line(f"give others what `trainmark key show {made.name}` prints; keep the file to yourself")
    elif args.what == "show":
        terminal.line(keys.public_line(args.name))
    elif args.what == "trust":
        text = sys.stdin.read() if str(args.file) == "-" else args.file.read_text(errors="replace")
        trusted = keys.trust(args.name, text)
        terminal.line(f"{trusted.name} is trusted: fingerprint {trusted.fingerprint}; compare it with its owner's")
    elif args.what == "list":
        found = keys.listed()
        for one in found:
            terminal.line(f"{one.name:16} {'own' if one.own else 'trusted':8} {one.fingerprint}")
        if not found:
            terminal.line("no keys; `trainmark key create` makes one")
    elif args.keyless:
        from trainmark.trust import keyless

        if args.key or args.role or args.output:
            raise UserError(
                "--keyless has no key and no role, and its signature is a file beside the bundle; "
                "leave out --key, --role and -o"
            )
        with bundle.opened(args.bundle):
            file, who = keyless.sign(args.bundle)
        terminal.line(f"{file}: signed by {who}; give it to others with the bundle")
    else:
        name, role = args.key or keys.DEFAULT, args.role or "auditor"
        output = args.output or args.bundle
        signed = bundle.add_signature(args.bundle, output, name, role, passphrase_of(name))
        terminal.line(f"{output}: signed as {role} by {signed}")
    return 0


def passphrase_of(name: str) -> str | None:
    """That of a key which has one: from the file that a variable names, or asked for at the terminal."""
    from trainmark.trust import keys

    if not keys.has_passphrase(name):
        return None
    file = os.environ.get(PASSPHRASE)
    if file:
        return Path(file).read_text().rstrip("\n")
    return _asked(twice=False)


def _asked(*, twice: bool) -> str:
    import getpass

    file = os.environ.get(PASSPHRASE)
    if file:
        return Path(file).read_text().rstrip("\n")
    if not sys.stdin.isatty():
        raise UserError(f"a passphrase is needed and there is no terminal to ask at: name a file by {PASSPHRASE}")
    given = getpass.getpass("passphrase: ")
    if twice and getpass.getpass("once more: ") != given:
        raise UserError("the two passphrases differ; nothing was made")
    if not given:
        raise UserError("an empty passphrase protects nothing; leave out --passphrase")
    return given
