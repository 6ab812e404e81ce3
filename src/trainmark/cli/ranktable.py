"""`trainmark ranktable`: the file that launchers and collective libraries want, made from a site."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli import common
from trainmark.errors import UserError
from trainmark.frameworks import cluster, ranktable
from trainmark.spec import inputs
from trainmark.spec.site import Site

EPILOG = """\
formats:
  group_list      Ascend, an instance for each device (MINDSPORE_HCCL_CONFIG_PATH)
  group_list_pod  Ascend, an instance for each host, as platforms hand it out
  server_list     Ascend, today's form (RANK_TABLE_FILE); --version 1.2 for super pods
  hostfile        Open MPI and Horovod: `host slots=N`
  ib_config       the same with addresses on the fast network
  tf_config       TensorFlow's TF_CONFIG of the worker --index
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, required=True, metavar="FILE", help="site YAML")
    parser.add_argument("--format", required=True, choices=list(ranktable.FORMATS), help="what to write")
    parser.add_argument("--version", default="1.0", metavar="V", help="of server_list: 1.0 (default) or 1.2")
    parser.add_argument("--nproc", type=int, metavar="N", help="ranks on each host (default: all its devices)")
    parser.add_argument(
        "--hccn",
        action="append",
        default=[],
        metavar="HOST=FILE",
        help="device addresses of a host: its /etc/hccn.conf, or the output of `hccn_tool -i N -ip -g`",
    )
    parser.add_argument("--job", default="job", metavar="NAME", help="of group_list_pod (default: job)")
    parser.add_argument(
        "--port", type=int, default=ranktable.DEFAULT_PORT, metavar="N", help="of tf_config: the first (default: 2222)"
    )
    parser.add_argument("--index", type=int, default=0, metavar="N", help="of tf_config: which worker (default: 0)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there (default: standard output)")


def call(args: argparse.Namespace) -> int:
    site = common.load_site(args)
    if args.nproc is not None and args.nproc < 1:
        raise UserError(f"--nproc: found {args.nproc}, allowed is 1 and more")
    if not 1 <= args.port <= 65535:
        raise UserError(f"--port: found {args.port}, allowed is 1 to 65535")
    found = cluster.of_site(site, args.nproc, _hccn(site, args))
    text = ranktable.FORMATS[args.format](found, version=args.version, job=args.job, port=args.port, index=args.index)
    common.write(text, args.output)
    return 0


def _hccn(site: Site, args: argparse.Namespace) -> dict[str, str]:
    """Texts that tell device addresses, by host: files the site names, then those of the command line."""
    files = {host: Path(one.hccn) for host, one in site.fabric.items() if one.hccn}
    for host, file in common.pairs(args.hccn, "--hccn").items():
        if host not in site.hosts:
            raise UserError(f"--hccn {host}={file}: site `{site.name}` has no host {host}")
        files[host] = Path(file)
    return {host: _read(file) for host, file in files.items()}


def _read(file: Path) -> str:
    return inputs.read_text(file)
