"""The library's door to bundles: what `trainmark pack`, `verify`, `leaderboard` and `import bundle` call.

from trainmark import api_trust

api_trust.pack("last", "result.tmk", key="default")
api_trust.verify("result.tmk").record.verified
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark import api
from trainmark.api import PathLike, RunLike, SiteLike
from trainmark.api_objects import OnProgress, Result, Run
from trainmark.extras import need
from trainmark.trust.records import Verification

if TYPE_CHECKING:
    from trainmark.report.make.compare import Comparison
    from trainmark.trust.pack import Packed

__all__ = ["leaderboard", "pack", "rerun", "unpack", "verify", "verify_all"]


def pack(
    run: RunLike | Sequence[RunLike],
    path: PathLike,
    *,
    runs: PathLike | None = None,
    key: str | None = None,
    passphrase: str | None = None,
    logs: bool = True,
    anonymous: bool = False,
) -> Packed:
    """Packs one or several runs into a bundle. `key`: the name of the key to sign with; None leaves it unsigned."""
    need("trust", "pack", "cryptography", "zstandard")
    from trainmark.trust import keys, pack

    several = [run] if isinstance(run, (Run, str)) or not isinstance(run, Sequence) else run
    signer = None if key is None else keys.load(key, passphrase)
    folders = [api.open(one, runs).folder for one in several]
    return pack.pack(folders, Path(path), key=signer, logs=logs, anonymous=anonymous)


def verify(path: PathLike) -> Result[Verification]:
    """What can be said of a bundle: `.record.verified`, `.record.findings`, and every figure recomputed.

    >>> api_trust.verify("result.tmk").record.faults()
    """
    return verify_all([path])[0]


def verify_all(paths: Sequence[PathLike]) -> list[Result[Verification]]:
    """The same of several; a run of which they tell differently is a fault of each of them."""
    need("trust", "verify", "cryptography", "zstandard")
    from trainmark.trust import document, verify

    found = verify.together([verify.verify(Path(path)) for path in paths])
    return [Result(one, list(one.figures), document.document(one)) for one in found]


def unpack(path: PathLike, *, runs: PathLike | None = None) -> list[Run]:
    """The runs of a verified bundle, kept among one's own."""
    need("trust", "import bundle", "cryptography", "zstandard")
    from trainmark.trust import unpack

    return [Run(one) for one in unpack.unpack(Path(path), api.runs_folder(runs))]


def rerun(
    path: PathLike,
    *,
    case: str | None = None,
    site: SiteLike = None,
    runs: PathLike | None = None,
    on_progress: OnProgress | None = None,
) -> Result[list[Comparison]]:
    """Runs the cases of a bundle's first run here, or one of them, and compares: A is the bundle, B this machine. A
    bundle that has faults is not run again: its figures say nothing."""
    need("trust", "verify --rerun", "cryptography", "zstandard")
    from trainmark.trust import unpack

    with unpack.verified(Path(path)) as theirs:
        mine = api.run({"name": "rerun", "cases": unpack.cases(theirs, case)}, site, runs=runs, on_progress=on_progress)
        return api.compare(Run(theirs), mine, runs=runs)


def leaderboard(bundles: Sequence[PathLike], folder: PathLike, *, title: str = "") -> list[Verification]:
    """A static site of verified bundles. Returns what was verified; those with faults are not on the site."""
    need("trust", "leaderboard", "cryptography", "zstandard")
    from trainmark.trust.leaderboard import write

    return write([Path(one) for one in bundles], Path(folder), title)
