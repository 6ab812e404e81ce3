"""What every launcher must do. Subclass, give `launcher` and `site`, and let pytest collect it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from trainmark.errors import UserError
from trainmark.frameworks.protocol import Command
from trainmark.i18n.speaker import say
from trainmark.launch.protocol import AttemptSpec, Ended, Launcher, StartedAttempt, launcher_of
from trainmark.plan.records import CasePlan, NodePlan, bare
from trainmark.spec.case_id import CaseId
from trainmark.spec.site import Site
from trainmark.spec.workload import Deadlines
from trainmark.spec.yamlfile import Location
from trainmark.store import events
from trainmark.store.rundir import LEASE, node_dir, rank_log

PATIENCE = 60.0


def case_plan(argv: tuple[str, ...], hosts: list[str], case: str = "thing:none:cpu:1:1:1") -> CasePlan:
    """A case that runs `argv` once on each host, and says nothing through the probe."""
    nodes = tuple(NodePlan(i, host, (Command(i, 0, argv, {"RANK": str(i)}),)) for i, host in enumerate(hosts))
    return bare(CaseId.parse(case), nodes, Deadlines(start=20, step=20, total=60, stop=2), unit="things")


class LauncherContract:
    """Starts real agents. A subclass overrides both fixtures."""

    @pytest.fixture
    def launcher(self) -> Launcher:
        raise NotImplementedError

    @pytest.fixture
    def site(self) -> Site:
        raise NotImplementedError

    @pytest.fixture
    def run_dir(self, tmp_path: Path) -> Path:
        (tmp_path / LEASE).write_bytes(b'{"epoch": 1}')
        return tmp_path

    def spec(self, run_dir: Path, site: Site, *argv: str, attempt: int = 1) -> AttemptSpec:
        return AttemptSpec(
            run="contract",
            run_dir=run_dir,
            attempt_dir=run_dir / "case" / "round1" / f"attempt{attempt}",
            case=case_plan(argv, site.hosts),
            round=1,
            attempt=attempt,
            token=os.urandom(16).hex(),
            key=os.urandom(16).hex(),
            epoch=1,
            seed=1,
        )

    def begun(self, launcher: Launcher, job: StartedAttempt) -> None:
        """Returns when it runs; a scheduler may let it wait."""
        deadline = time.monotonic() + PATIENCE
        while (state := launcher.poll([job], 0.5)[job.handle].state) == "PENDING" and time.monotonic() < deadline:
            pass
        assert state == "RUNNING"

    def wait(self, launcher: Launcher, job: StartedAttempt) -> Ended:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ended = launcher.poll([job], 1.0)[job.handle]
            if ended.state.ended:
                launcher.collect(job)
                return ended
        pytest.fail(f"not ended within {PATIENCE} s")

    def test_what_it_is_called_and_can_do(self, launcher: Launcher, site: Site) -> None:
        assert type(launcher_of(site)) is type(launcher), "a site that names it gets another launcher"
        flags = (launcher.this_machine, launcher.shared_folder, launcher.chooses_hosts)
        assert all(isinstance(flag, bool) for flag in flags)
        assert launcher.this_machine <= launcher.shared_folder, "this machine sees its own folders"
        assert launcher.chooses_hosts or all(site.hosts)

    def test_a_configured_site_stays_as_it_is(self, launcher: Launcher, site: Site) -> None:
        configured = launcher.configure(site, Location("site"))
        assert launcher.configure(configured, Location("site")) == configured
        assert msgspec.convert(configured.launcher_options, launcher.options_type)

    def test_unknown_options_are_refused(self, launcher: Launcher, site: Site) -> None:
        wrong = msgspec.structs.replace(site, launcher_options={**site.launcher_options, "no such option": 1})
        with pytest.raises(UserError, match="no such option"):
            launcher.configure(wrong, Location("site"))

    def test_render_is_pure(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "true")
        assert launcher.render(spec, site) == launcher.render(spec, site)
        assert not spec.attempt_dir.exists()

    def test_a_good_attempt(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/echo", "a word with spaces", "$(id) 'quoted' \"too\"\nnew line")
        ended = self.wait(launcher, launcher.submit(launcher.render(spec, site)))
        assert ended.state == "SUCCEEDED", ended
        said = rank_log(node_dir(spec.attempt_dir, site.hosts[0], 0), 0).read_text()
        assert said == "a word with spaces $(id) 'quoted' \"too\"\nnew line\n"
        results = list(events.results(spec.attempt_dir))
        assert len(results) == len(site.hosts) and all(result["containment"]["left"] == 0 for result in results)

    def test_a_failed_attempt_has_a_reason(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/sh", "-c", "echo last words; exit 3")
        ended = self.wait(launcher, launcher.submit(launcher.render(spec, site)))
        assert ended.state == "FAILED" and "code 3" in say(ended.reason)
        assert ended.failure is not None and ended.failure["last_lines"][-1] == "last words"

    def test_cancel_ends_it(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/sleep", "1000")
        job = launcher.submit(launcher.render(spec, site))
        self.begun(launcher, job)
        launcher.cancel(job, 1, "a test", "stop")
        ended = self.wait(launcher, job)
        assert ended.state == "CANCELLED" and "a test" in say(ended.reason)

    def test_cancel_right_after_the_start(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        """An agent that does not listen yet obeys as soon as it does."""
        job = launcher.submit(launcher.render(self.spec(run_dir, site, "/bin/sleep", "1000"), site))
        launcher.cancel(job, 1, "a test", "stop")
        assert self.wait(launcher, job).state == "CANCELLED"

    def test_an_agent_that_is_destroyed_is_lost(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/sleep", "1000")
        job = launcher.submit(launcher.render(spec, site))
        self.begun(launcher, job)
        launcher.cancel(job, 1, "a test", "destroy")
        assert self.wait(launcher, job).state in ("LOST", "FAILED")

    def test_an_attempt_is_found_again(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/sleep", "1")
        assert launcher.find(spec.attempt_dir, spec.token) is None
        job = launcher.submit(launcher.render(spec, site))
        deadline = time.monotonic() + PATIENCE
        found = None
        while found is None and time.monotonic() < deadline:
            found = launcher.find(spec.attempt_dir, spec.token)
        assert found is not None, "what was started is not found"
        assert (found.handle, found.attempt_dir, found.token) == (job.handle, job.attempt_dir, job.token)
        launcher.adopt(job, 2)
        launcher.cancel(job, 1, "an old controller", "stop")
        assert self.wait(launcher, job).state == "SUCCEEDED", "an old controller was obeyed"
        assert launcher.find(spec.attempt_dir, "another token") is None

    def test_a_replaced_controller_starts_nothing(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        (run_dir / LEASE).write_bytes(b'{"epoch": 2}')
        spec = self.spec(run_dir, site, "/bin/touch", str(run_dir / "ran"))
        assert self.wait(launcher, launcher.submit(launcher.render(spec, site))).state == "LOST"
        assert not (run_dir / "ran").exists()

    def test_many_are_asked_about_at_once(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        specs = [self.spec(run_dir, site, "/bin/true", attempt=number) for number in (1, 2, 3)]
        jobs = [launcher.submit(launcher.render(spec, site)) for spec in specs]
        assert set(launcher.poll(jobs, 0.0)) == {job.handle for job in jobs}
        assert {self.wait(launcher, job).state for job in jobs} == {"SUCCEEDED"}

    def test_collecting_again_changes_nothing(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/true")
        job = launcher.submit(launcher.render(spec, site))
        ended = self.wait(launcher, job)
        before = {file: file.read_bytes() for file in spec.attempt_dir.rglob("*") if file.is_file()}
        launcher.collect(job)
        assert {file: file.read_bytes() for file in spec.attempt_dir.rglob("*") if file.is_file()} == before
        assert launcher.poll([job], 0.0)[job.handle] == ended

    def test_a_release_may_be_repeated(self, launcher: Launcher, site: Site, run_dir: Path) -> None:
        spec = self.spec(run_dir, site, "/bin/true")
        self.wait(launcher, launcher.submit(launcher.render(spec, site)))
        assert launcher.release(run_dir) == [] and launcher.release(run_dir) == []

    def test_check_says_what_it_found(self, launcher: Launcher, site: Site) -> None:
        findings = launcher.check(site, None)
        assert findings and all(finding.what and finding.host for finding in findings)
        assert msgspec.json.encode(findings)
