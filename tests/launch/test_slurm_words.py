"""Command lines for Slurm as text: what a site asks for is in them, and no value is ever read by a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainmark.errors import UserError
from trainmark.launch.sites import load_site
from trainmark.launch.slurm import command_line as slurm_words
from trainmark.launch.slurm.on_nodes import judge
from trainmark.launch.slurm.options import SlurmOptions
from trainmark.launch.slurm.plan import check_runs, key, sbatch_of
from trainmark.spec.site import Site


def load(folder: Path, slurm: dict[str, Any] | None = None, **more: Any) -> Site:
    content = {"name": "hpc", "launcher": "slurm", "hosts": ["n[1-2]"], "shared_dir": "/home/me", "slurm": slurm or {}}
    file = folder / "site.yaml"
    file.write_text(json.dumps({name: value for name, value in {**content, **more}.items() if value is not None}))
    return load_site(file, "here")


def ask(site: Site, **more: Any) -> list[str]:
    asked = slurm_words.Ask("tm", len(site.hosts), tuple(site.hosts), (), "/home/me/run/slurm/suite.1", "/z/node.pyz")
    return slurm_words.sbatch(site, asked)


def test_everything_a_site_asks_for(tmp_path: Path) -> None:
    wanted = {
        "partition": "a100",
        "account": "proj $(id)",
        "qos": "high",
        "time": "1-12",
        "memory": "64G",
        "cpus_per_node": 48,
        "gpus_per_node": 8,
        "gres": "nvme:1",
        "constraint": "ib&hdr",
        "reservation": "bench 'day'",
        "options": ["--hint=nomultithread"],
        "step_options": ["--network=sn_all"],
    }
    site = load(tmp_path, wanted)
    words = ask(site)
    for word in (
        "--partition=a100",
        "--account=proj $(id)",
        "--qos=high",
        "--time=1-12",
        "--mem=64G",
        "--cpus-per-task=48",
        "--gpus-per-node=8",
        "--gres=nvme:1",
        "--constraint=ib&hdr",
        "--reservation=bench 'day'",
        "--exclusive",
        "--hint=nomultithread",
        "--nodelist=n1,n2",
    ):
        assert word in words
    script = words.index("/home/me/run/slurm/suite.1/job.sh")
    assert words[script + 1 :] == ["python3", "-I", "-S", "/z/node.pyz", "slurm-job", "/home/me/run/slurm/suite.1"]
    step = slurm_words.srun(site, "mnist-1", 2, "/z/node.pyz")
    expected = ["--cpus-per-task=48", "--gpus-per-node=8", "--gres=nvme:1", "--cpu-bind=none", "--kill-on-bad-exit=1"]
    assert set(expected) <= set(step) and "--network=sn_all" in step and "--hint=nomultithread" not in step


def test_the_script_holds_no_value() -> None:
    assert slurm_words.SCRIPT.splitlines()[-1] == 'exec "$@"'


def test_nodes_by_number_by_name_or_all_of_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert load(tmp_path, {"nodes": 3}, hosts=None).hosts == ["", "", ""]
    named = load(tmp_path, {"nodes": "n[1-2],gpu[08-09]"}, hosts=None)
    assert named.hosts == ["n1", "n2", "gpu08", "gpu09"] and "--nodelist=n1,n2,gpu08,gpu09" in ask(named)
    for bad in ("n[1-2", "n1,n1", "", "n1 n2", "n[2-1]"):
        with pytest.raises(UserError, match=r"slurm\.nodes"):
            load(tmp_path, {"nodes": bad}, hosts=None)


def test_inside_a_job_its_nodes_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2],gpu7")
    assert load(tmp_path, {}, hosts=None).hosts == ["n1", "n2", "gpu7"]
    assert load(tmp_path, {"nodes": 2}, hosts=None).hosts == ["n1", "n2"]
    assert load(tmp_path, {"nodes": "gpu7"}, hosts=None).hosts == ["gpu7"]
    for asked, hosts in (({"nodes": 4}, None), ({}, ["n1", "n9"])):
        with pytest.raises(UserError, match=r"this is job 77 with 3 node\(s\).*`reuse: false`"):
            load(tmp_path, asked, hosts=hosts)
    assert load(tmp_path, {"nodes": 4, "reuse": False}, hosts=None).hosts == [""] * 4


def test_what_the_nodes_said_of_themselves() -> None:
    good = "trainmark-node n1 3.9.2 True\ntrainmark-node n2 3.11.2 True\n"
    assert [one.good for one in judge(good, "", 2, "/home", "python3", "here")] == [True]
    bad = judge("trainmark-node n1 3.6.8 True\ntrainmark-node n2 3.9.2 False\n", "", 2, "/home", "python3", "here")
    assert [(one.host, one.good) for one in bad] == [("n1", False), ("n2", False)]
    assert "3.6.8" in bad[0].found and "/home is not seen there" in bad[1].found and all(one.cure for one in bad)
    busy = "srun: Requested partition configuration not available now"
    assert [one.good for one in judge("", busy, 2, "/home", "python3", "here")] == [None], "nothing is known: no fault"


def test_whole_nodes_have_all_their_memory_and_cores(tmp_path: Path) -> None:
    site = load(tmp_path)
    assert {"--exclusive", "--mem=0"} <= set(ask(site))
    assert "--cpus-per-task=%CPUS%" in slurm_words.srun(site, "x", 2, "z"), "a step inherits no cores since 22.05"
    shared = load(tmp_path, {"exclusive": False})
    assert not [word for word in ask(shared) if word.startswith(("--exclusive", "--mem"))]


def test_containers(tmp_path: Path) -> None:
    box = {"engine": "pyxis", "image": "nvcr.io#nvidia/pytorch:24.01", "python": "python", "mounts": ["/data:/data:ro"]}
    words = slurm_words.srun(load(tmp_path, container=box), "x", 2, "z.pyz")
    assert "--container-image=nvcr.io#nvidia/pytorch:24.01" in words
    assert "--container-mounts=/home/me:/home/me,/data:/data:ro" in words
    assert words[words.index("python") + 1 :] == ["-I", "-S", "z.pyz", "%VERB%", "%ORDER%", "%NODES%"]
    box = {"engine": "apptainer", "image": "/images/torch.sif", "options": ["--nv"], "mounts": ["/data"]}
    words = slurm_words.srun(load(tmp_path, container=box, modules=["apptainer/1.2"]), "x", 2, "z.pyz")
    inside = words[words.index("apptainer") :]
    assert inside[:8] == [
        "apptainer",
        "exec",
        "--no-home",
        "--bind",
        "/home/me:/home/me",
        "--bind",
        "/data:/data",
        "--nv",
    ]
    assert inside[8:10] == ["/images/torch.sif", "python3"] and "apptainer/1.2" in words


def test_a_lost_node_is_done_without() -> None:
    about: dict[str, object] = {"named": False, "sbatch": ["sbatch", "--nodes=4"], "sbatch_less": ["sbatch", "x"]}
    about["sbatch_less"] = ["sbatch", "--exclude=%EXCLUDE%", "--job-name=%NAME%", "%FOLDER%/job.sh"]
    assert sbatch_of(about, "/f", "tm", ["n3", "n7"]) == ["sbatch", "--exclude=n3,n7", "--job-name=tm", "/f/job.sh"]
    assert sbatch_of(about, "/f", "tm", []) == ["sbatch", "--nodes=4"]


def test_which_rounds_share_a_job() -> None:
    keys = {how: key(SlurmOptions(allocation=how), 3) for how in ("suite", "block", "round")}  # type: ignore[arg-type]
    assert keys == {"suite": "suite", "block": "block3", "round": "round"}


@pytest.mark.parametrize(
    ("slurm", "more", "words"),
    [
        ({"partitoin": "x"}, {}, "slurm: unknown key `partitoin` (did you mean `partition`?)"),
        ({"time": 5400}, {}, "slurm.time: found 5400"),
        ({"time": "soon"}, {}, "slurm.time: found 'soon'"),
        ({"memory": "lots"}, {}, "slurm.memory: found 'lots'"),
        ({"nodes": 2}, {}, "slurm.nodes: `hosts` names the nodes already"),
        ({}, {"hosts": None}, "slurm.nodes: missing"),
        ({"nodes": 0}, {"hosts": None}, "slurm.nodes: found 0"),
        ({"options": ["-N4"]}, {}, "slurm.options[0]: found '-N4'"),
        ({"options": ["--array=1-4"]}, {}, "--array is trainmark's own"),
        ({"partition": "a\nb"}, {}, "slurm.partition: found 'a\\nb'"),
        ({"idle_seconds": 1}, {}, "slurm.idle_seconds: found 1"),
        ({}, {"shared_dir": None}, "shared_dir: missing"),
        ({}, {"container": {"image": "x"}}, "container.engine: found 'docker', allowed with launcher `slurm`"),
        ({}, {"launcher": "ssh"}, "slurm: only launcher `slurm` reads it"),
    ],
)
def test_mistakes_in_a_site(tmp_path: Path, slurm: dict[str, Any], more: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path, slurm, **more)
    assert words in str(error.value) and "site.yaml" in str(error.value)


def test_runs_must_be_where_nodes_see_them(tmp_path: Path) -> None:
    site = load(tmp_path)
    check_runs(site, Path("/home/me/runs"))
    with pytest.raises(UserError, match="--runs /home/me/runs"):
        check_runs(site, Path("/home/meme/runs"))
