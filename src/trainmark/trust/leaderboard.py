"""A static site of verified bundles: who is fastest at what, with intervals, ties, and the proof beside each row.

index.html          all results, with filters; needs no server
verified/NAME.tmk.html  what verifying each bundle said
bundles/NAME.tmk    the bundles themselves
experiments/RUN/    AutoML experiments, to be run again
feed.json, feed.xml what is new, for programs and readers of news
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from trainmark.errors import UserError
from trainmark.i18n.texts import Text, label
from trainmark.reasons import EMULATED
from trainmark.report import build, numbers
from trainmark.report import document as doc
from trainmark.report.records import CaseReport
from trainmark.report.show import show
from trainmark.score.stats import verdict
from trainmark.store.rundir import Manifest
from trainmark.trust import document, keyless, scores, verify
from trainmark.trust.board_entry import BUNDLES, VERIFIED, Entry, entry, page, proof, shared
from trainmark.trust.bundle import opened
from trainmark.trust.records import Verification
from trainmark.trust.scores import Scored

TITLE = "trainmark leaderboard"


class Row(Entry, frozen=True):
    """One case of one bundle. Rows are compared within the same `question`: workload, preset and unit."""

    question: str
    unit: str
    framework: str
    device: str
    nodes: int
    procs: int
    division: str
    dtype: str
    value: float
    ci_low: float | None
    ci_high: float | None
    inputs: list[float]
    efficiency: float | None
    energy: float | None
    # Samples for one unit of the currency.
    price: float | None
    currency: str

    def headline(self) -> str:
        return f"{self.case}: {numbers.quantity(self.value, self.unit)} on {self.system}"


def write(bundles: Sequence[Path], folder: Path, title: str = "") -> list[Verification]:
    """Makes the site. A folder that is there must be empty or an older site: nothing else is overwritten."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "feed.json").is_file():
        raise UserError(f"-o {folder}: there is something else in this folder; name a new one")
    names = [path.name for path in bundles]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UserError(f"two bundles are called {min(twice)}; give one of them another name")
    found = verify.together([verify.verify(path) for path in bundles])
    rows: list[Row] = []
    experiments: list[Scored] = []
    listed: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="trainmark-site-") as made:
        site = Path(made)
        for part in (BUNDLES, VERIFIED):
            (site / part).mkdir()
        for path, checked in zip(bundles, found, strict=True):
            if checked.verified:
                made_rows, made_scores = _entries(path, checked, site, listed)
                rows += made_rows
                experiments += made_scores
                listed.update(checked.runs)
                for file in (path, keyless.beside(path)):
                    if file.is_file():
                        shutil.copyfile(file, site / BUNDLES / file.name)
                told = show(document.document(checked), "html")
                (site / VERIFIED / f"{path.name}.html").write_text(told, encoding="utf-8")
        (site / "index.html").write_text(show(page_of(rows, title or TITLE, experiments), "html"), "utf-8")
        (site / "feed.json").write_bytes(_json_feed([*rows, *experiments], title or TITLE))
        (site / "feed.xml").write_text(_rss([*rows, *experiments], title or TITLE), encoding="utf-8")
        for part in (BUNDLES, VERIFIED, scores.FOLDER):
            shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(site, folder, dirs_exist_ok=True)
    return found


def _entries(
    path: Path, checked: Verification, site: Path, listed: Set[str] = frozenset()
) -> tuple[list[Row], list[Scored]]:
    """Of its runs, without those that are listed from another bundle already. Those of other tools are left out:
    there is no journal that their figures could be held against. Writes to the site what repeats an experiment."""
    rows: list[Row] = []
    experiments: list[Scored] = []
    with opened(path) as bundle:
        for run in bundle.runs():
            manifest = run.manifest()
            if run.id in listed or manifest.imported:
                continue
            report, about = build.build(run), entry(manifest, path.name, checked)
            if manifest.plan.kind == "benchmark":
                rows += [row for case in report.cases if (row := row_of(case, manifest, about)) is not None]
            elif found := scores.scored(report, manifest, about):
                experiments += found
                scores.write(manifest, site)
    return rows, experiments


def row_of(case: CaseReport, manifest: Manifest, about: Entry) -> Row | None:
    """None for a case that has no speed."""
    speed = case.measurements.get("throughput")
    plan = next(one for one in manifest.plan.cases if one.case == case.case)
    if speed is None or speed.value is None:
        return None
    per_sample = case.measurements.get("energy_per_sample")
    price = manifest.plan.site.price
    emulated = any(flag.reason.code == EMULATED for flag in case.flags)
    own = {
        "case": plan.identity.replace(":*", f":{plan.id.repeat}", 1),
        "system": about.system + (" (emulated)" if emulated else ""),
    }
    return Row(
        **shared(about) | own,
        question=f"{plan.workload} {case.preset}",
        unit=speed.unit,
        framework=plan.framework,
        device=plan.device,
        nodes=plan.id.nnodes,
        procs=plan.id.nproc,
        division=case.division,
        dtype=str(plan.params.get("dtype", numbers.NONE)),
        value=speed.value,
        ci_low=speed.ci_low,
        ci_high=speed.ci_high,
        inputs=list(speed.inputs),
        efficiency=_value(case, "mfu") or _value(case, "matmul_fraction"),
        energy=None if per_sample is None else per_sample.value,
        price=None if price is None else 3600 * speed.value / price.per_hour,
        currency="" if price is None else price.currency,
    )


def _value(case: CaseReport, name: str) -> float | None:
    found = case.measurements.get(name)
    return None if found is None else found.value


def places(rows: Sequence[Row]) -> list[int]:
    """Of rows of one question, fastest first: one more than those that are beyond doubt faster. Who is not beyond doubt
    slower than another shares its place."""
    found = []
    for row in rows:
        others = [one for one in rows if one is not row and one.value > row.value]
        pairs = [verdict.Pair(row.inputs, one.inputs) for one in others]
        words = [made.word for made in verdict.judge(pairs)] if pairs else []
        found.append(1 + words.count("faster"))
    return found


def page_of(rows: Sequence[Row], title: str, experiments: Sequence[Scored] = ()) -> doc.Document:
    every: list[Entry] = [*rows, *experiments]
    counts: list[tuple[Text, doc.Inline]] = [
        *_counts(rows, experiments),
        (label("board.bundles"), str(len({row.bundle for row in every}))),
    ]
    feeds = doc.Several((doc.Reference("JSON", "feed.json"), doc.Reference("RSS", "feed.xml")))
    lines = _lines(rows, proof)
    facts: list[tuple[Text, doc.Inline]] = [*_in_common(lines), (label("board.feeds"), feeds)]
    blocks: list[doc.Block] = [doc.Facts(counts, style="tiles")]
    if rows:
        blocks += [_table(lines), doc.Paragraph(label("board.how"), small=True)]
    blocks += scores.blocks(experiments)
    if not every:
        blocks.append(doc.Paragraph(label("board.empty")))
    return doc.Document(title, label("board.kind"), title, blocks, facts=facts)


def page_of_runs(rows: Sequence[Row], title: str, proof: Callable[[Row], doc.Inline]) -> doc.Document:
    """The same of runs that no bundle was made of. `proof`: where a row can be looked at."""
    lines = _lines(rows, proof)
    blocks: list[doc.Block] = [
        doc.Facts(_counts(rows), style="tiles"),
        _table(lines),
        doc.Paragraph(label("board.how_runs"), small=True),
    ]
    return doc.Document(title, label("board.kind"), title, blocks, facts=_in_common(lines))


def _counts(rows: Sequence[Row], experiments: Sequence[Scored] = ()) -> list[tuple[Text, doc.Inline]]:
    every: list[Entry] = [*rows, *experiments]
    return [
        (label("board.results"), str(len(every))),
        (label("board.workloads"), str(len({row.question for row in rows}))),
        (label("board.systems"), str(len({row.system for row in every}))),
    ]


def _lines(rows: Sequence[Row], proof: Callable[[Row], doc.Inline]) -> list[list[doc.Inline]]:
    """Of each question, the fastest first."""
    found: list[list[doc.Inline]] = []
    for question, unit in sorted({(row.question, row.unit) for row in rows}):
        mine = sorted((row for row in rows if (row.question, row.unit) == (question, unit)), key=lambda row: -row.value)
        taken = places(mine)
        found += [
            _cells(row, place, taken.count(place) > 1, proof(row)) for row, place in zip(mine, taken, strict=True)
        ]
    return found


def _in_common(rows: list[list[doc.Inline]]) -> list[tuple[Text, doc.Inline]]:
    """What is the same in all rows is said once."""
    alike = [index for index in _same(rows) if rows[0][index] != numbers.NONE]
    return [(_COLUMNS[index].head, rows[0][index]) for index in alike]


def _same(rows: list[list[doc.Inline]]) -> list[int]:
    """Columns to choose by, beside the first, that give no choice."""
    choices = [index for index, column in enumerate(_COLUMNS) if column.filter and index]
    return [index for index in choices if len(rows) > 1 and len({str(row[index]) for row in rows}) == 1]


def _table(rows: list[list[doc.Inline]]) -> doc.Block:
    """Without columns in which nobody has anything, or all have the same."""
    same = _same(rows)
    used = [
        index for index in range(len(_COLUMNS)) if index not in same and any(row[index] != numbers.NONE for row in rows)
    ]
    table = doc.Table(
        [_COLUMNS[index] for index in used], [[row[index] for index in used] for row in rows], style="board"
    )
    return doc.Group([table], style="flush")


_COLUMNS = [
    doc.Column(label("board.workload"), figures=False, filter=True),
    doc.Column(label("board.place"), figures=False),
    doc.Column(label("m.throughput")),
    doc.Column(label("board.system"), figures=False, filter=True),
    doc.Column(label("board.framework"), figures=False, filter=True),
    doc.Column(label("board.device"), figures=False, filter=True),
    doc.Column(label("board.shape"), figures=False, filter=True),
    doc.Column(label("board.dtype"), figures=False, filter=True),
    doc.Column(label("board.division"), figures=False, filter=True),
    doc.Column(label("board.efficiency")),
    doc.Column(label("board.energy")),
    doc.Column(label("board.price")),
    doc.Column(label("board.proof"), figures=False),
    doc.Column(label("board.again"), figures=False),
]


def _cells(row: Row, place: int, shared: bool, proof: doc.Inline) -> list[doc.Inline]:
    ends = [numbers.number(one) for one in (row.ci_low, row.ci_high) if one is not None]
    return [
        row.question,
        doc.Badge(label("board.tie" if shared else "board.alone", str(place)), "good" if place == 1 else "calm"),
        doc.Stack(doc.Strong(numbers.quantity(row.value, row.unit)), " … ".join(ends)),
        row.system,
        row.framework,
        row.device,
        f"{row.nodes} × {row.procs}",
        row.dtype,
        row.division,
        _optional(row.efficiency, "fraction"),
        _optional(row.energy, "J"),
        numbers.NONE if row.price is None else f"{numbers.number(row.price)} / {row.currency}",
        proof,
        doc.Fold(label("board.command"), [("", reproduce(row))]),
    ]


def reproduce(row: Row) -> str:
    """The command that repeats a row. The id came with the bundle: nothing in it may mean anything to a shell."""
    return shlex.join(["trainmark", "run", row.case])


def _optional(value: float | None, unit: str) -> str:
    return numbers.NONE if value is None else numbers.quantity(value, unit)


def _json_feed(rows: Sequence[Entry], title: str) -> bytes:
    """JSON Feed 1.1, newest first; each item has the whole row."""
    items: list[dict[str, Any]] = [
        {
            "id": f"{row.run} {row.case}",
            "url": page(row),
            "title": row.headline(),
            "content_text": row.headline(),
            "date_published": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.created * 1e-9)),
            "_trainmark": msgspec.to_builtins(row),
        }
        for row in _newest(rows)
    ]
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": title, "items": items}
    return msgspec.json.format(msgspec.json.encode(feed), indent=1) + b"\n"


def _rss(rows: Sequence[Entry], title: str) -> str:
    items = "".join(
        f"<item><title>{escape(row.headline())}</title><link>{escape(page(row))}</link>"
        f'<guid isPermaLink="false">{escape(f"{row.run} {row.case}")}</guid>'
        f"<pubDate>{time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime(row.created * 1e-9))}</pubDate></item>\n"
        for row in _newest(rows)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>'
        f"<title>{escape(title)}</title><link>index.html</link><description>{escape(title)}</description>\n"
        f"{items}</channel></rss>\n"
    )


def _newest(rows: Sequence[Entry]) -> list[Entry]:
    return sorted(rows, key=lambda row: (-row.created, row.case))
