"""`python -m lab up|down|check|list|on|poweroff|boot|unplug|plug`."""

from __future__ import annotations

import argparse
import os
import sys
import time

from lab import check as checks
from lab import layout, packages
from lab.lab import Lab, labs
from lab.layout import HEAD, Options
from trainmark.errors import UserError


def main(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    try:
        return int(args.call(args))
    except UserError as error:
        sys.stderr.write(f"lab: {error}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=layout.__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    up = _verb(verbs, "up", _up, "make a lab, or mend one; may be repeated")
    up.add_argument("--hosts", type=int, default=2, metavar="N", help="how many nodes (default: 2)")
    up.add_argument("--slurm", action="store_true", help="a real Slurm over them, with accounting")
    up.add_argument("--docker", action="store_true", help="docker and podman on each, and a registry")
    up.add_argument("--gpus", type=int, default=2, metavar="N", help="stand-in GPUs per node (default: 2)")
    up.add_argument("--bind", action="append", default=[], metavar="DIR", help="let hosts see a folder below /tmp")
    up.add_argument("--install", action="store_true", help="install missing packages by apt-get")
    _verb(verbs, "down", _down, "end a lab; nothing of it is left")
    _verb(verbs, "check", _check, "try everything a lab should do")
    verbs.add_parser("list", help="the labs of this machine").set_defaults(call=_list)
    for name, text in _FAULTS.items():
        _verb(verbs, name, _fault, text).add_argument("host", metavar="HOST")
        verbs.choices[name].set_defaults(fault=name)
    on = _verb(verbs, "on", _on, "run a command inside a host")
    on.add_argument("host", metavar="HOST")
    on.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


_FAULTS = {
    "poweroff": "pull a host's plug",
    "boot": "start a host again",
    "unplug": "pull a host's network cable",
    "plug": "put the cable back",
}


Verbs = argparse._SubParsersAction  # the only name argparse has for it


def _verb(verbs: Verbs[argparse.ArgumentParser], name: str, call: object, text: str) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=text, description=text)
    verb.add_argument("--name", default="lab", help="which lab; several can be up at once (default: lab)")
    verb.set_defaults(call=call)
    return verb


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _up(args: argparse.Namespace) -> int:
    began = time.monotonic()
    options = Options(
        name=args.name,
        nodes=args.hosts,
        slurm=args.slurm,
        docker=args.docker,
        gpus=args.gpus,
        binds=tuple(os.path.abspath(path) for path in args.bind),
    )
    lab = Lab.make(options, install=args.install, say=_say)
    plan, named = lab.layout, "" if args.name == "lab" else f" --name {args.name}"
    _say(f"up after {time.monotonic() - began:.0f} s")
    _say(f"  ssh -F {plan.ssh_config} node1 hostname")
    for file in sorted(plan.base.glob("*.yaml")):
        _say(f"  trainmark doctor --site {file}")
    if plan.options.slurm:
        _say(f"  python -m lab on{named} {HEAD} sinfo")
    return 0


def _found(args: argparse.Namespace) -> Lab:
    why = packages.hindrance()
    if why:
        raise UserError(f"the lab {why}")
    lab = Lab.find(args.name, _say)
    if lab is None:
        known = ", ".join(lab.layout.options.name for lab in labs()) or "none"
        raise UserError(f"no lab `{args.name}`; there is {known}")
    return lab


def _down(args: argparse.Namespace) -> int:
    lab = Lab.find(args.name, _say) if packages.hindrance() is None else _found(args)
    if lab is None:
        _say(f"no lab `{args.name}`: nothing to do")
        return 0
    lab.down()
    _say("down")
    return 0


def _check(args: argparse.Namespace) -> int:
    return checks.run(_found(args), _say)


def _list(_args: argparse.Namespace) -> int:
    for lab in labs():
        alive = [host for host in lab.layout.hosts if lab.alive(host)]
        _say(f"{lab.layout.options.name}: {len(alive)} of {len(lab.layout.hosts)} hosts up, {lab.layout.base}")
    return 0


def _on(args: argparse.Namespace) -> int:
    argv = _found(args).enter(args.host, *(args.command or ["bash"]))
    os.environ["PATH"] = packages.PATH
    os.execvp(argv[0], argv)  # noqa: S606


def _fault(args: argparse.Namespace) -> int:
    lab = _found(args)
    if args.host not in lab.layout.hosts:
        raise UserError(f"no host `{args.host}`; there is {', '.join(lab.layout.hosts)}")
    getattr(lab, args.fault)(args.host)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
