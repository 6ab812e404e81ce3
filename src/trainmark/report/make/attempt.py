"""One attempt read and scored. What took long is cached, by the content it was made from."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark import __version__, cache
from trainmark.devices.protocol import dense_peak
from trainmark.plan.records import CasePlan
from trainmark.reasons import Reason, as_reason, reason
from trainmark.report.make import trained
from trainmark.report.records import RunSeries
from trainmark.score.figures import convergence, hook_reports
from trainmark.score.figures.attempt import Question, RunScore, score_run
from trainmark.score.figures.compute import PeakFlops
from trainmark.score.records import SCORER_VERSION
from trainmark.spec.columns import Columns
from trainmark.store import columns, events
from trainmark.store.files import BROKEN, write_json
from trainmark.store.rundir import EVENTS, FACTS, SAMPLES, node_files

# Below this many bytes of events, scoring again is as fast as looking it up.
CACHE_FROM = 8 << 20


class Scored(msgspec.Struct, frozen=True):
    """An attempt's score, and what its events tell besides."""

    score: RunScore
    lines: int
    warnings: list[Reason] = []
    # Ranks that ended without saying so; steps at which ranks went on from a checkpoint.
    unfinished: list[int] = []
    resumed: list[int] = []
    # What the hooks in an unmodified program say of how they counted.
    remarks: list[Reason] = []
    series: RunSeries | None = None
    # What the programs said of their model, by the names of `trained.NOTES`.
    model: dict[str, int] = {}


def score_attempt(
    folder: Path, case: CasePlan, results: Sequence[dict[str, Any]] = (), *, series: bool = False
) -> Scored:
    """`results`: what the agents wrote at its end. They know of other runs on their host, which samples do not."""
    found = _of_events(folder, case, series)
    others = [one for result in results for why in result.get("disturbed", []) if (one := as_reason(why))]
    if not others:
        return found
    score = msgspec.structs.replace(found.score, disturbed=[*found.score.disturbed, *others])
    return msgspec.structs.replace(found, score=score)


def _of_events(folder: Path, case: CasePlan, series: bool) -> Scored:
    size = sum(file.stat().st_size for file in node_files(folder, EVENTS))
    if size < CACHE_FROM:
        return _score(columns.read(folder, case.world), folder, case, series)
    content = _content(folder)
    cached = cache.cache_dir("scores") / f"{_key(content, folder, case, series)}.json"
    try:
        return msgspec.json.decode(cached.read_bytes(), type=Scored)
    except (OSError, *BROKEN):
        pass
    import hashlib

    digest = hashlib.sha256()
    read = columns.read(folder, case.world, digest.update)
    found = _score(read, folder, case, series)
    # A file that grew in the meantime is not what the key stands for.
    if digest.digest() == content:
        # A cache that cannot be written is no cache, and no error.
        with contextlib.suppress(OSError):
            cache.make(cached.parent)
            write_json(cached, found)
    return found


def question(case: CasePlan, models: Sequence[str] = ()) -> Question:
    """What scoring must know of a case. `models`: what its devices said they are."""
    return Question(
        world=case.world,
        window=case.window,
        target=convergence.target(case.target, case.params),
        flops_per_sample=case.flops_per_sample,
        peak=_peak(case, models),
        reachable=case.reachable,
    )


def _peak(case: CasePlan, models: Sequence[str]) -> PeakFlops:
    """Of all devices together, by the site's word, else by the vendor's own paper: that of the model the devices say
    they are, else of the one the case names."""
    dtype = case.params.get("dtype")
    if dtype is None:
        return PeakFlops(None, reason("no-number-format"))
    named = models[0] if len(models) == 1 else case.device
    known = case.peak or dense_peak(case.vendor, named, str(dtype))
    if known is None or not case.world:
        return PeakFlops(None, reason("vendor-peak-unknown", dtype=dtype, device=named))
    return PeakFlops(known.flops * case.world, source=f"{case.world} × {known.flops:.4g}: {known.source}")


def _score(read: Columns, folder: Path, case: CasePlan, series: bool) -> Scored:
    nodes = events.samples(folder)
    curves = None
    if series:
        from trainmark.report.make.series import curves_of

        curves = curves_of(read, nodes, case.band)
    resumed = {step for rank in read.ranks for step in rank.notes("resumed_from_step") if isinstance(step, int)}
    score = score_run(read, nodes, question(case, events.models(folder)))
    return Scored(
        score=score,
        lines=read.lines,
        warnings=read.warnings,
        unfinished=[rank.rank for rank in read.ranks if rank.mark("FINISHED") is None],
        resumed=sorted(resumed),
        remarks=[*hook_reports.remarks(read.ranks), *trained.capped(read.ranks)],
        series=curves,
        model=trained.noted(read.ranks),
    )


def _content(folder: Path) -> bytes:
    """A hash of all events, in the order in which they are read."""
    import hashlib

    digest = hashlib.sha256()
    for file in node_files(folder, EVENTS):
        with file.open("rb") as stream:
            while block := stream.read(columns.CHUNK):
                digest.update(block)
    return digest.digest()


def _key(content: bytes, folder: Path, case: CasePlan, series: bool) -> str:
    import hashlib

    digest = hashlib.sha256(content)
    for name in (SAMPLES, FACTS):
        for file in node_files(folder, name):
            digest.update(file.parent.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    # Warnings name the folder; a moved run is read again.
    for part in (SCORER_VERSION, __version__, question(case), case.band, series, str(folder), trained.NOTES):
        digest.update(msgspec.json.encode(part, order="deterministic"))
    return digest.hexdigest()
