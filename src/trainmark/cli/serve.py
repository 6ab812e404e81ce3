"""`trainmark serve`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainmark.cli import terminal
from trainmark.errors import OK, UserError
from trainmark.extras import need

EPILOG = """\
examples:
  trainmark serve                                       on this machine only: http://127.0.0.1:8470
  trainmark serve --host 0.0.0.0 --tls-cert C --tls-key K
  trainmark serve --proxy 10.0.0.1 --root-path /bench   behind a reverse proxy that does https
  trainmark serve backup server.tar.gz                  its folder and database as one file, also while it runs
  trainmark serve restore server.tar.gz --home DIR      into a new folder
  trainmark serve unit --home DIR --account NAME        print a systemd unit
  trainmark serve compose                               print a compose file, with PostgreSQL
The first start prints a link by which the admin sets a password, once. There is no default password.
"""
# What is printed instead of serving.
_TEXTS = ("unit", "compose")
_LOCAL = ("127.0.0.1", "::1", "localhost")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("backup", "restore", *_TEXTS), help="instead of serving")
    parser.add_argument("archive", nargs="?", type=Path, metavar="FILE", help="the backup's file")
    parser.add_argument("--home", type=Path, metavar="DIR", help="the server's folder (default: in ~/.local/share)")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: loopback)")
    parser.add_argument("--port", type=int, default=8470, metavar="N", help="port to listen at (default: 8470)")
    parser.add_argument("--database", metavar="URL", help="postgresql://… (default: SQLite in the server's folder)")
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="32 bytes or more, mode 0600, to encrypt secrets of users with (default: server.key in the folder)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate: serve https")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")
    parser.add_argument(
        "--proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a reverse proxy that does https; what it says of clients is believed",
    )
    parser.add_argument(
        "--demo", action="store_true", help="at the first start, queue a short benchmark that all users see"
    )
    parser.add_argument(
        "--json-log", action="store_true", help="write the log as one JSON object a line, with every request"
    )
    parser.add_argument("--account", metavar="NAME", help="of `unit`: whom the server runs as (default: root)")
    parser.add_argument("--root-path", default="", metavar="PATH", help="path that the proxy serves this under")


def call(args: argparse.Namespace) -> int:
    need("web", "`trainmark serve`")
    _check(args)
    if args.what in _TEXTS:
        return _print(args)
    if args.what is not None:
        return _archive(args)
    from trainmark.web.home import DEFAULT
    from trainmark.web.server import Settings
    from trainmark.web.serving import Listening, serve

    secure = bool(args.tls_cert or args.proxy)
    settings = Settings(
        args.home or DEFAULT, args.database, args.key_file, secure=secure, root_path=args.root_path.rstrip("/")
    )
    listening = Listening(args.host, args.port, args.tls_cert, args.tls_key, tuple(args.proxy))
    serve(settings, listening, terminal.line, demo=args.demo, json_log=args.json_log)
    return OK


def _print(args: argparse.Namespace) -> int:
    """What keeps a server running, with the options that were given beside it."""
    from trainmark.web import deployment
    from trainmark.web.home import DEFAULT

    if args.what == "compose":
        terminal.out(deployment.compose())
        return OK
    words = [str(Path(sys.executable).with_name("trainmark")), "serve", "--host", args.host, "--port", str(args.port)]
    for name in ("database", "key_file", "tls_cert", "tls_key", "root_path"):
        if getattr(args, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += [word for address in args.proxy for word in ("--proxy", address)]
    words += ["--json-log"] if args.json_log else []
    terminal.out(deployment.unit(words, args.account, (args.home or DEFAULT).expanduser().absolute()))
    return OK


def _archive(args: argparse.Namespace) -> int:
    from trainmark.web import backup
    from trainmark.web.home import DEFAULT, Home

    home = Home(args.home or DEFAULT)
    if args.what == "backup":
        made = backup.backup(home, args.database, args.archive)
        terminal.line(f"{args.archive}: {made.bytes} bytes; it holds passwords' hashes and keys, keep it private")
        if made.skipped:
            terminal.line(f"{made.skipped} files went away or could not be read meanwhile, and are not in it")
    else:
        backup.restore(args.archive, home, args.database)
        terminal.line(f"restored into {home.path}")
    return OK


def _check(args: argparse.Namespace) -> None:
    if (args.what in (None, *_TEXTS)) != (args.archive is None):
        raise UserError(f"serve {args.what or args.archive}: allowed is `serve backup FILE` or `serve restore FILE`")
    if args.database and "@" in args.database and ":" in args.database.partition("://")[2].partition("@")[0]:
        raise UserError("--database: others see a password among arguments; put it into ~/.pgpass or PGPASSWORD")
    if not 0 <= args.port <= 65535:
        raise UserError(f"--port: found {args.port}, allowed is 0 (any free port) to 65535")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UserError("--tls-cert and --tls-key belong together")
    if args.host not in _LOCAL and not args.tls_cert and not args.proxy:
        raise UserError(
            f"--host {args.host}: others would send their passwords unencrypted; give --tls-cert and --tls-key, "
            "or name the --proxy that does https"
        )
    if args.root_path and not args.root_path.startswith("/"):
        raise UserError(f"--root-path: found {args.root_path!r}, allowed is a path that begins with `/`")
    for file in (args.tls_cert, args.tls_key):
        if file is not None and not file.is_file():
            raise UserError(f"{file}: no such file")
