"""What every format must do. Subclass, give `name` and `sample` (and `runs` for one that writes), and let pytest
collect it."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmark.errors import UserError
from trainmark.interop.protocol import REGISTRY, Format, defaults
from trainmark.interop.reading import source
from trainmark.interop.reading.importing import import_results
from trainmark.interop.reading.records import Begin, Counted, End, Flag, Item, LoggedEvent, LoggedSample
from trainmark.interop.reading.writer import RAW
from trainmark.reasons import reason
from trainmark.report import build
from trainmark.report.make.index_row import summarise
from trainmark.store.rundir import Imported, RunDir

_QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def read(form: Format, path: Path, options: Mapping[str, Any] | None = None) -> list[Item]:
    """Everything a format says of a file or folder."""
    with tempfile.TemporaryDirectory() as folder:
        said: list[Item] = []
        kept = source.keep_all(path, form.wants, Path(folder) / RAW, said.append)
        chosen = {**defaults(form.import_options), **(options or {})}
        return [*said, *(form.read(kept, chosen) if kept else ())]


def check(items: list[Item]) -> None:
    """The grammar of items, and that every line is accounted for."""
    inside: Begin | None = None
    for item in items:
        if isinstance(item, Begin):
            assert inside is None, "a round inside a round"
            inside = item
            assert not item.case.trouble()
        elif isinstance(item, End):
            assert inside is not None and item.state.ended
            assert item.state == "SUCCEEDED" or item.reason, "a bad end without a reason"
            inside = None
        elif isinstance(item, LoggedEvent):
            assert inside is not None and item.rank >= 0
        elif isinstance(item, LoggedSample):
            assert inside is not None and item.node >= 0
    assert inside is None, "a round without an end"
    counted = [item for item in items if isinstance(item, Counted)]
    assert all(one.lines == one.taken + one.other + one.flagged and one.other >= 0 for one in counted)
    rows = sum(item.rows for item in items if isinstance(item, Flag))
    assert rows == sum(one.flagged for one in counted), "flagged rows that no flag tells of"


class FormatContract:
    """For formats that read. A subclass overrides the fixtures."""

    @pytest.fixture
    def name(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Path:
        """A good file or folder with at least one round."""
        raise NotImplementedError

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        """What the sample needs besides the defaults."""
        return {}

    @pytest.fixture
    def form(self, name: str) -> Format:
        found: Format = REGISTRY.get(name)
        return found

    def import_results(self, name: str, sample: Path, runs: Path, options: dict[str, Any]) -> Any:
        return import_results(name, sample, runs, {**defaults(REGISTRY.get(name).import_options), **options})

    def test_the_sample_is_read_in_order(self, form: Format, sample: Path, options: dict[str, Any]) -> None:
        items = read(form, sample, options)
        check(items)
        assert any(isinstance(item, LoggedEvent) for item in items)
        again = read(form, sample, options)
        assert [i for i in again if not isinstance(i, Counted)] == [i for i in items if not isinstance(i, Counted)]

    def test_it_becomes_a_run(self, name: str, sample: Path, tmp_path: Path, options: dict[str, Any]) -> None:
        brought = self.import_results(name, sample, tmp_path / "runs", options)
        run = RunDir(Path(brought.dir))
        imported = run.manifest().imported
        assert isinstance(imported, Imported) and imported.format == name
        report = build.build(run)
        assert len(report.cases) == brought.cases and not report.warnings
        assert all(reason("imported-from", format=name) in case.notes for case in report.cases)
        assert "(imported)" in summarise(run.path).suite
        assert not list(run.path.rglob(".*")), "something unfinished was left"

    def test_the_source_is_kept_as_it_is(
        self, name: str, sample: Path, tmp_path: Path, options: dict[str, Any]
    ) -> None:
        before = _tree(sample)
        brought = self.import_results(name, sample, tmp_path / "runs", options)
        kept = {file.name: file.read_bytes() for file in (Path(brought.dir) / RAW).iterdir() if len(file.name) == 64}
        assert kept and all(hashlib.sha256(data).hexdigest() == digest for digest, data in kept.items())
        assert set(kept.values()) <= set(before.values())
        assert _tree(sample) == before

    def test_twice_is_once(self, name: str, sample: Path, tmp_path: Path, options: dict[str, Any]) -> None:
        first = self.import_results(name, sample, tmp_path / "runs", options)
        moved = tmp_path / "elsewhere" / sample.name
        (shutil.copytree if sample.is_dir() else _copy)(sample, moved)
        second = self.import_results(name, moved, tmp_path / "runs", options)
        assert (first.again, second.again, second.run) == (False, True, first.run)
        assert len(list((tmp_path / "runs").iterdir())) == 1

    def test_compressed_is_the_same(self, form: Format, sample: Path, tmp_path: Path, options: dict[str, Any]) -> None:
        if not sample.is_file():
            pytest.skip("a folder")
        packed = tmp_path / "packed" / sample.parent.name / sample.name
        packed.parent.mkdir(parents=True)
        packed.write_bytes(gzip.compress(sample.read_bytes()))
        assert _said(read(form, packed, options)) == _said(read(form, sample, options))

    def test_any_damage_is_survived(self, form: Format, sample: Path, options: dict[str, Any]) -> None:
        """Cut off, overwritten, mixed with anything: every line is still accounted for and nothing breaks."""
        victim = sample if sample.is_file() else max(_files(sample), key=lambda file: file.stat().st_size)
        good = victim.read_bytes()

        @_QUICK
        @given(st.integers(0, len(good)), st.integers(0, len(good)), st.binary(max_size=64))
        def damage(at: int, until: int, junk: bytes) -> None:
            victim.write_bytes(good[:at] + junk + (good[until:] if until > at else b""))
            try:
                check(read(form, sample, options))
            except UserError as error:
                assert str(error)

        try:
            damage()
        finally:
            victim.write_bytes(good)


class ExportContract:
    """For formats that write. A subclass overrides `name` and `runs`."""

    @pytest.fixture
    def name(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def runs(self, tmp_path: Path) -> list[RunDir]:
        """At least one run that the format can write."""
        raise NotImplementedError

    @pytest.fixture
    def output(self, tmp_path: Path) -> Path:
        """A file or folder that is not there yet."""
        return tmp_path / "output"

    def write(self, name: str, runs: list[RunDir], output: Path) -> list[Path]:
        form: Format = REGISTRY.get(name)
        return form.write(runs, output, defaults(form.export_options))

    def test_it_writes_what_it_says(self, name: str, runs: list[RunDir], output: Path) -> None:
        before = [_tree(run.path) for run in runs]
        written = self.write(name, runs, output)
        assert sorted(written) == _files(output) and all(file.stat().st_size for file in written)
        assert [_tree(run.path) for run in runs] == before, "a run was changed"

    def test_the_same_runs_give_the_same_bytes(self, name: str, runs: list[RunDir], output: Path) -> None:
        self.write(name, runs, output)
        first = _tree(output)
        self.write(name, runs, output)
        assert first and _tree(output) == first

    def test_a_place_that_cannot_be_written(self, name: str, runs: list[RunDir], tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(UserError, match="--output"):
            self.write(name, runs, tmp_path / "file" / "below")


def _said(items: list[Item]) -> list[Item]:
    """Without the hashes of files."""
    return [msgspec.structs.replace(item, raw="") if isinstance(item, Begin) else item for item in items]


def _copy(source_file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    shutil.copyfile(source_file, target)


def _files(top: Path) -> list[Path]:
    return [file for file in sorted(top.rglob("*")) if file.is_file()] if top.is_dir() else [top]


def _tree(top: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in _files(top)}
