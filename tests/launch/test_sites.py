"""A launcher's part of a site: both spellings, errors of the launcher that owns it, hosts that are not known yet."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from trainmark.errors import UserError
from trainmark.launch.protocol import launcher_of
from trainmark.launch.sites import load_site
from trainmark.launch.slurm import options as slurm_options
from trainmark.plan.build import Places, lay_out
from trainmark.spec import site as sites
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.site import Site
from trainmark.store.rundir import MANIFEST, RunDir

FROZEN = Path(__file__).parents[1] / "store" / "frozen" / "schema1"


def load(folder: Path, text: str) -> Site:
    file = folder / "site.yaml"
    file.write_text(text)
    return load_site(file, "here")


@pytest.mark.parametrize(
    ("beside", "inside"),
    [
        ("launcher: ssh\nssh: {user: me, port: 2222}\n", "launcher: {name: ssh, user: me, port: 2222}\n"),
        (
            "launcher: slurm\nshared_dir: /home\nslurm: {nodes: 2, time: '1:30'}\n",
            "launcher: {name: slurm, nodes: 2, time: '1:30'}\nshared_dir: /home\n",
        ),
        ("", "launcher: {name: local}\n"),
    ],
)
def test_both_spellings_are_the_same(tmp_path: Path, beside: str, inside: str) -> None:
    assert load(tmp_path, beside) == load(tmp_path, inside)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("launcher: {name: ssh, port: 0}", "site.yaml: line 1: launcher.port: found 0, allowed is 1 to 65535"),
        ("launcher: ssh\nssh: {prt: 22}", "site.yaml: line 2: ssh: unknown key `prt` (did you mean `port`?)"),
        ("launcher: {name: local, port: 22}", "launcher: unknown key `port`"),
        ("launcher: {port: 22}", "launcher.name: found None, allowed is the name of a launcher"),
        ("launcher: ssh\nssh: 22", "line 2: ssh: found 22, allowed are options of launcher `ssh`"),
        ("launcher: ssh\nslurm: {}", "line 2: slurm: only launcher `slurm` reads it, found launcher `ssh`"),
        ("launcher: rocket", "no launcher `rocket`"),
        ("launcher_options: {}", "launcher_options: unknown key"),
        ("launcher: ssh\nhosts: ['']", "hosts[0]: found ''"),
        ("launcher: ssh\ncontainer: {image: a, engine: pyxis}", "found 'pyxis', allowed with launcher `ssh`: docker"),
        ("container: {image: a}", "container: launcher `local` has none; use launcher `ssh`"),
    ],
)
def test_errors_name_the_line_and_the_cure(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert said in str(caught.value)


def test_hosts_that_slurm_chooses_have_no_name_in_the_plan(tmp_path: Path) -> None:
    site = load(tmp_path, "launcher: {name: slurm, nodes: 2}\nshared_dir: /home\n")
    (case,) = suite_cases.expand(suites.single("mnist:pytorch:cpu:2:1:1", "smoke"), site, {})
    planned = lay_out(case, site, Places("python3", "/probe"))
    assert [node.host for node in planned.nodes] == ["", ""]
    assert planned.nodes[1].ranks[0].env["MASTER_ADDR"] == "%HOST0%"


def test_workers_under_slurm_are_jobs_of_their_own(tmp_path: Path) -> None:
    site = load(tmp_path, "launcher: {name: slurm, nodes: 2, partition: a}\nshared_dir: /home\n")
    options = slurm_options.of(launcher_of(site).site_for_workers(site, several=True))
    assert (options.allocation, options.exclusive, options.partition) == ("round", False, "a")
    assert slurm_options.of(site).job_for_each == "suite"
    one = load(tmp_path, "launcher: {name: slurm, nodes: 2, allocation: suite}\nshared_dir: /home\n")
    assert slurm_options.of(launcher_of(one).site_for_workers(one, several=False)).job_for_each == "suite"
    with pytest.raises(UserError, match="several workers on a node are jobs of their own"):
        launcher_of(one).site_for_workers(one, several=True)


def test_manifests_with_options_under_the_names_of_launchers_are_read(tmp_path: Path) -> None:
    raw = json.loads((FROZEN / MANIFEST).read_text())
    old = {**raw["plan"]["site"], "launcher": "ssh", "ssh": {"port": 2222}, "slurm": None}
    old.pop("launcher_options", None)
    raw["plan"]["site"] = old
    (tmp_path / MANIFEST).write_text(json.dumps(raw))
    site = RunDir(tmp_path).manifest().plan.site
    assert site.launcher == "ssh" and site.launcher_options == {"port": 2222}
    assert msgspec.convert(sites.of_older_version({"hosts": ["a"], "slurm": None}), Site) == Site(hosts=["a"])
