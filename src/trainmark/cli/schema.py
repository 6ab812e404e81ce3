"""`trainmark schema`: what editors check suites, sites and workloads with."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli import common
from trainmark.spec.schemas import KINDS

EPILOG = """\
examples:
  trainmark schema suite -o suite.schema.json    write it where your editor finds it
  trainmark schema check suite.yaml site.yaml    say what is wrong with these files, e.g. before a commit
In a YAML file, this line makes editors with the YAML language server check and complete it:
  # yaml-language-server: $schema=suite.schema.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=(*KINDS, "check"), help="which one, or `check` to check files")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="for `check`: suites, sites and workloads")
    common.add_output(parser)


def call(args: argparse.Namespace) -> int:
    from trainmark.errors import OK, UserError
    from trainmark.spec import schemas

    if args.what != "check":
        if args.files:
            raise UserError("FILE: only `trainmark schema check` takes files")
        common.write(schemas.text(args.what), args.output)
        return OK
    if not args.files:
        raise UserError("FILE: name the files to check")
    wrong = [str(error) for file in args.files if (error := _fault(file)) is not None]
    if wrong:
        raise UserError("\n".join(wrong))
    return OK


def _fault(file: Path) -> Exception | None:
    """What `run` would say of it. Which kind it is, its keys say."""
    from trainmark.errors import UserError
    from trainmark.launch import sites
    from trainmark.spec import schemas, suite, suite_cases, workload, yamlfile
    from trainmark.spec.site import Site

    try:
        content = yamlfile.load(file)
        kind = schemas.kind_of(content, file.name)
        if kind == "workload":
            workload.read(file.resolve().parent)
        elif kind == "site":
            sites.load_site(file)
        else:
            loaded = suite.load(file)
            if not suite_cases.wanted_batches(loaded):
                suite_cases.expand(loaded, Site(hosts=["any"]), {})
    except UserError as error:
        return error
    return None
