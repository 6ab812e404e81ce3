"""What a plan asks of a site's Pythons and files: as a relay asks, of real interpreters, without a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.agent.relay import check as relay_check
from trainmark.errors import UserError
from trainmark.launch.protocol import Finding
from trainmark.launch.sites import load_site
from trainmark.launch.ssh import pythons as ssh_pythons
from trainmark.plan.records import Plan
from trainmark.run import planning
from trainmark.spec import suite as suites
from trainmark.spec.site import Prepare, Site

# The real one takes seconds to import.
TORCH = '__version__ = "1.0"\n\ndef get_num_threads():\n    return 1\n'


def plan_of(case: str, site: Site) -> Plan:
    return planning.plan_suite(suites.single(case, "smoke"), site, {}, 1)


def found(site: Site, plan: Plan | None, work: Path, answers: dict[str, Any] | None = None) -> dict[str, Finding]:
    """What would be said of a host like this machine, by its subject."""
    wanted = ssh_pythons.wanted(site, plan)
    asked = {"data": [], "ports": [], "container": None, "pythons": ssh_pythons.questions(site, plan, wanted)}
    answers = answers or relay_check.check(asked, str(work))["pythons"]
    return {f.what: f for f in ssh_pythons.judge("n1", answers, site, wanted, deep=plan is None)}


def there(**more: Any) -> Site:
    return Site(launcher="ssh", hosts=["n1", "n2"], python=sys.executable, **more)


def test_a_python_without_the_framework(tmp_path: Path) -> None:
    """Each framework is looked for in the Python that its ranks would get."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/jax.py").write_text("")
    site = there(pythons={"jax": "/no/python"})
    seen = found(site, plan_of("mnist:jax:cpu:2:1:1", site), tmp_path)
    assert seen["python"].good is False and "/no/python" in seen["python"].found
    site = there()
    seen = found(site, plan_of("mnist:jax:cpu:2:1:1", site), tmp_path)
    assert seen["jax"].good is False and seen["jax"].found == f"not in {sys.executable}"
    assert "pythons: {jax: /path/to/python}" in seen["jax"].cure
    # In a place that ranks will look at, or about to be installed.
    site = there(env={"PYTHONPATH": str(tmp_path / "lib")})
    assert "jax" not in found(site, plan_of("mnist:jax:cpu:2:1:1", site), tmp_path)
    site = there(prepare=Prepare(requirements="r.txt"))
    assert found(site, plan_of("mnist:jax:cpu:2:1:1", site), tmp_path)["jax"].good is None
    site = there()
    assert all(f.good for f in found(site, plan_of("noop:none:cpu:2:1:1", site), tmp_path).values())


def test_the_wrong_python_for_it(tmp_path: Path) -> None:
    site = there()
    plan = plan_of("mnist:mindspore:cpu:2:1:1", site)
    old = {sys.executable: {"python": "3.9.2", "without": ["mindspore"], "missing": [], "closed": []}}
    seen = found(site, plan, tmp_path, old)
    assert seen["python"].good is True and seen["mindspore"].good is False
    assert "this is Python 3.9.2" in seen["mindspore"].cure and "`3.11`, `3.12`" in seen["mindspore"].cure
    has_it = {sys.executable: {"python": "3.9.2", "without": [], "missing": [], "closed": []}}
    assert all(f.good for f in found(site, plan, tmp_path, has_it).values()), "an older release may be all right there"
    older = {sys.executable: {"python": "3.6.9", "without": [], "missing": [], "closed": []}}
    assert found(site, plan, tmp_path, older)["python"].good is False


def test_doctor_looks_into_every_python_that_the_site_names(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    env = {"PYTHONPATH": str(tmp_path)}
    site = there(pythons={"mindspore": "/usr/bin/env", "paddle": sys.executable}, env=env)
    seen = found(site, None, tmp_path)
    assert seen["pytorch"].good is True and seen["pytorch"].found == "1.0"
    assert seen["paddle"].good is False and "mindspore" not in seen
    assert seen["python"].good is False and "/usr/bin/env" in seen["python"].found


def test_a_rank_table_that_is_not_on_the_host(tmp_path: Path) -> None:
    table = tmp_path / "hccl.json"
    site = there(rank_table=str(table), env={"PYTHONPATH": str(tmp_path)})
    (tmp_path / "mindspore.py").write_text("")
    (tmp_path / "torch.py").write_text(TORCH)
    plan = plan_of("mnist:mindspore:cpu:2:1:1", site)
    seen = found(site, plan, tmp_path)
    assert seen["rank table"].good is False and str(table) in seen["rank table"].found
    assert "rank table" in found(site, None, tmp_path), "doctor looks for it, too"
    assert "rank table" not in found(site, plan_of("noop:none:cpu:2:1:1", site), tmp_path), "nobody is told of it"
    table.write_text("{}")
    assert "rank table" not in found(site, plan, tmp_path)


def test_a_rank_table_that_is_not_here(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    where = cli.folder / "site.yaml"
    (cli.folder / "mindspore.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(cli.folder), prepend=os.pathsep)
    where.write_text(f"schema: 1\nname: here\npython: {sys.executable}\nrank_table: {cli.folder}/hccl.json\n")
    said = cli.process("run", "mnist:mindspore:cpu:1:2:1", "--preset", "smoke", "--site", str(where), code=3).stderr
    assert f"rank_table: {cli.folder}/hccl.json: no file" in said and "trainmark ranktable" in said
    assert not cli.runs.exists()
    where.write_text("schema: 1\nname: here\nrank_table: hccl.json\n")
    with pytest.raises(UserError, match=r"rank_table: found 'hccl.json', allowed is `auto` or an absolute path"):
        load_site(where, "here")
