"""The command lines of launchers that start ranks on all nodes, against their documented forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.frameworks.protocol import REGISTRY, Start, Topology

TWO = ("n1", "n2")


def start(framework: str, **more: Any) -> Start:
    topology = Topology(**{"hosts": TWO, "nproc": 8, "backend": "", **more})
    made: Start = REGISTRY.get(framework).start(topology, ("python3", "-u", "train.py"))
    return made


def launcher(made: Start) -> list[str]:
    """The words that the first node starts, as the head takes them apart."""
    ((command,), *_) = made.nodes
    agent, verb, _port, _doors, count, *words = command.argv
    assert (agent, verb) == ("%AGENT%", "mpi-head") and words[int(count) :] == ["python3", "-u", "train.py"]
    return list(words[: int(count)])


def test_mpirun() -> None:
    made = start("mpi", interface="ib0")
    words = launcher(made)
    assert words[:5] == ["mpirun", "-np", "16", "--hostfile", "%DIR%/hostfile"] and words[-1] == "trainmark-rank"
    assert made.files == {"hostfile": "n1 slots=8\nn2 slots=8\n"}
    text = " ".join(words)
    assert "--map-by ppr:8:node" in text and "--bind-to none" in text
    assert "--mca btl_tcp_if_include ib0" in text and "--mca oob_tcp_if_include ib0" in text
    assert made.launched and made.ports == 1
    ((door,),) = made.nodes[1:]
    assert door.argv[:5] == ("%AGENT%", "mpi-member", "n1", "%PORT0%", "n2") and door.rank == 8


def test_what_the_site_says_comes_first() -> None:
    words = launcher(start("mpi", options=("--bind-to", "core", "--mca", "btl", "tcp,self")))
    assert words.count("--bind-to") == 1 and words[-4:] == ["--mca", "btl", "tcp,self", "trainmark-rank"]
    assert "none" not in words and "core" in words


def test_one_node_needs_no_network() -> None:
    made = start("mpi", hosts=("n1",), interface="ib0")
    assert made.files == {"hostfile": "localhost slots=8\n"} and made.ports == 0 and len(made.nodes) == 1
    assert "ib0" not in launcher(made)


def test_a_second_step_under_slurm() -> None:
    for framework in ("mpi", "horovod"):
        words = launcher(start(framework, starter="srun", options=("--hint=nomultithread",)))
        assert words[:3] == ["srun", "--mpi=pmix", "--overlap"] and words[-1] == "trainmark-rank"
        assert {"--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--hint=nomultithread"} <= set(words)
        assert words[words.index("--nodelist") + 1] == "n1,n2"
    assert "--mpi=pmix" not in launcher(start("mpi", starter="srun", options=("--mpi=pmi2",)))


def test_horovodrun() -> None:
    """`horovodrun -np 16 -hostfile FILE --network-interface ib0 python …`, as guides have it."""
    made = start("horovod", interface="ib0")
    assert launcher(made) == [
        *("horovodrun", "-np", "16", "-hostfile", "%DIR%/hostfile", "--network-interface", "ib0", "trainmark-rank")
    ]
    assert made.files == {"hostfile": "n1 slots=8\nn2 slots=8\n"}


def test_horovod_by_mpirun() -> None:
    """What Horovod documents for clusters without `horovodrun`."""
    text = " ".join(launcher(start("horovod", starter="mpirun")))
    assert text.startswith("mpirun -np 16 ") and "--bind-to none" in text
    assert text.endswith("--mca pml ob1 --mca btl ^openib trainmark-rank")


def test_log_levels(cli: Cli, tmp_path: Path) -> None:
    """The case's own word stands above the suite's, and that above the site's; a site's variable above them all."""
    (tmp_path / "site.yaml").write_text("schema: 1\nname: here\nlog_level: error\nenv: {TF_CPP_MIN_LOG_LEVEL: '7'}\n")
    cases = "  - noop:none:cpu:1:1:1\n  - {case: 'noop:pytorch:cpu:1:1:1', log_level: debug}\n"
    for suite_level, expected in (("", "3"), ("log_level: info\n", "1")):
        (tmp_path / "s.yaml").write_text(f"schema: 1\nname: s\npreset: smoke\n{suite_level}cases:\n{cases}")
        plan = json.loads(cli("plan", "s.yaml", "--site", "site.yaml", "--json").stdout)
        plain, loud = (case["env"] for case in plan["cases"])
        assert plain["ASCEND_GLOBAL_LOG_LEVEL"] == expected and plain["TF_CPP_MIN_LOG_LEVEL"] == "7"
        assert (loud["NCCL_DEBUG"], loud["TORCH_DISTRIBUTED_DEBUG"]) == ("TRACE", "DETAIL")
        assert "GLOG_v" not in plain, "it means the opposite to different libraries"
    done = cli("plan", "s.yaml", "--site", "site.yaml", code=None)
    assert done.returncode == 0
    (tmp_path / "s.yaml").write_text(f"schema: 1\nname: s\npreset: smoke\nlog_level: loud\ncases:\n{cases}")
    assert "log_level" in cli("plan", "s.yaml", code=2).stderr


@pytest.mark.parametrize(("framework", "level", "expected"), [("mindspore", "warning", "2"), ("paddle", "debug", "4")])
def test_one_name_with_two_meanings(framework: str, level: str, expected: str) -> None:
    from trainmark.frameworks.log_levels import variables

    assert variables(level, framework)["GLOG_v"] == expected


def test_a_launcher_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    """Told before anything starts, with the cure."""
    (tmp_path / "site.yaml").write_text("schema: 1\nname: here\nenv: {PATH: /nowhere}\n")
    done = cli("run", "allreduce:mpi:cpu:1:2:1", "--preset", "smoke", "--site", "site.yaml", code=1)
    assert "SKIPPED" in done.stdout + done.stderr and "mpirun is not on PATH: install it" in done.stdout + done.stderr
    assert not list(cli.runs.glob("*/*/round1"))


def test_no_second_step_from_inside_a_container(cli: Cli, tmp_path: Path) -> None:
    site = {"schema": 1, "name": "boxed", "launcher": "slurm", "shared_dir": str(tmp_path), "slurm": {"nodes": 2}}
    (tmp_path / "site.yaml").write_text(json.dumps({**site, "container": {"engine": "pyxis", "image": "i"}}))
    done = cli("plan", "allreduce:mpi:cpu:2:1:1", "--site", "site.yaml", code=2)
    assert "use a site without `container:` for framework `mpi`" in done.stderr
