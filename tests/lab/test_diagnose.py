"""A slow wire and a dead host between real hosts: found, and told by their own names."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import packages, slowness
from lab.lab import Lab
from tests.conftest import WORKLOAD, Cli
from tests.diagnose import injection
from tests.diagnose.injection import BITS_PER_SECOND, BYTES
from tests.faults.conftest import wait_for
from trainmark.i18n.speaker import say
from trainmark.score.diagnosis import causes as diagnosis

pytestmark = pytest.mark.lab

# Two ranks: each receives as many bytes as there are gradients, and one of them through the slow wire.
INJECTED = 8 * BYTES / BITS_PER_SECOND
KINDS = ("clean", "loader", "straggler", "wire")

PROGRAM = """
import trainmark_job

def main():
    config = trainmark_job.begin("things", {})
    import torch, trainmark_torch
    import trainmark_probe as probe
    place = trainmark_torch.join(config)
    model = trainmark_torch.share(torch.nn.Linear(1000, 1000, bias=False), place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    probe.init_end()
    probe.train_start()
    for _ in range(100):
        with probe.span("data"):
            batch = torch.randn(8, 1000)
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        probe.step(8, loss.detach())
    probe.train_end()
    probe.finish()
    trainmark_torch.leave(place)

trainmark_job.run(main)
"""


@pytest.fixture
def slow_wire(hosts: Lab) -> Iterator[None]:
    device = hosts.layout.wire("node2")
    words = ["tc", "qdisc", "add", "dev", device, "root", "tbf"]
    words += ["rate", f"{BITS_PER_SECOND}bit", "burst", "64kb", "latency", "400ms"]
    subprocess.run(words, check=True, env={"PATH": packages.PATH})
    yield
    subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=False, env={"PATH": packages.PATH})


@pytest.mark.usefixtures("slow_wire")
@pytest.mark.alone
def test_a_slow_wire_is_transfer(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path], site_file: Callable[..., Path]
) -> None:
    import trainmark

    yaml = WORKLOAD.replace("{{none: main.py}}", "{{pytorch: main.py}}")
    library = Path(trainmark.__file__).parent / "workloads/lib"
    yaml = yaml.replace("probe: {probe}", f"probe: {{probe}}\npath: [{library}]")
    make_workload(PROGRAM, yaml=yaml.replace("total: 60", "total: 240").replace("start: 20", "start: 120"))
    suite = make_suite("  - thing:pytorch:cpu:2:1:1")
    done = cli("diagnose", str(suite), "--site", str(site_file()), "--rounds", "5", "--json")
    (found,) = json.loads(done.stdout)["diagnoses"]
    assert found["rounds"] == 5
    first = found["causes"][0]
    assert first["kind"] == "transfer" and "node1, node2" in say(first["place"])
    for value in (found["classes"]["transfer"], found["by_ablation"]):
        assert value["low"] <= 1.2 * INJECTED and value["high"] >= 0.8 * INJECTED and value["low"] > 0, value


@pytest.mark.alone
def test_what_is_put_in_between_clean_rounds_is_found(hosts: Lab) -> None:
    """A loader, a rank and a wire, each slow in turns with clean rounds, over two hosts: each under its own heading."""
    slowness.ahead(hosts)
    out = hosts.layout.shared / "injected"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    ranks = [
        injection.start(rank, out, KINDS, hosts.enter(host, "env"), GLOO_SOCKET_IFNAME="eth0", PATH=packages.PATH)
        for rank, host in enumerate(hosts.nodes[:2])
    ]
    rounds = injection.rounds_of(ranks, out, KINDS)
    clean = rounds["clean"]
    for name, kind, injected in (
        ("data", "loader", injection.slept(out, 0, "loader")),
        ("transfer", "wire", INJECTED),
    ):
        assert injection.grown_most(rounds[kind], clean) == name
        assert injection.holds(injection.of_class(name, rounds[kind]), injection.of_class(name, clean), injected), kind
    waited = [injection.waited_for_second(one) for one in (rounds["straggler"], clean)]
    assert injection.grown_most(rounds["straggler"], clean) == "waiting"
    assert injection.holds(waited[0], waited[1], injection.slept(out, 1, "straggler"))
    names = dict(enumerate(hosts.nodes))
    slowness.as_before(hosts)
    for kind, cause in (("loader", "data"), ("straggler", "waiting"), ("wire", "transfer")):
        told = diagnosis.diagnose("x:pytorch:cpu:2:1:1", [diagnosis.Observed(one) for one in rounds[kind]], names)
        assert cause in [one.kind for one in told.causes], told.causes


def test_a_host_that_dies_is_recovered_from(
    cli: Cli, hosts: Lab, digits: Path, make_suite: Callable[..., Path], site_file: Callable[..., Path]
) -> None:
    suite = make_suite(
        f"  - case: mnist:pytorch:cpu:2:1:1\n    data: {digits}\n"
        "    set: {steps: 300, checkpoint_every: 20, eval_every: 300, batch: 8}"
    )
    process = cli.start("goodput", str(suite), "--site", str(site_file()), "--json")
    kept = hosts.layout.host("node2") / "home/root/.trainmark/runs"
    wait_for(lambda: list(kept.glob("*/*/round1/checkpoints/*/step-*.pt")) or process.poll() is not None)
    hosts.poweroff("node2")
    hosts.boot("node2")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    (one,) = json.loads(out)["cases"]
    recoveries = one["goodput"]["recoveries"]
    assert one["goodput"]["attempts"] >= 2 and len(recoveries) >= 1
    assert recoveries[0]["total"] > 0 and 0 < one["goodput"]["effective_ratio"]["value"] < 1


def test_peaks_of_wires_between_hosts(cli: Cli, site_file: Callable[..., Path], tmp_path: Path) -> None:
    site = site_file("pair")
    cli("peaks", "--site", str(site), "--preset", "smoke")
    kept = json.loads((tmp_path / "pair.peaks.json").read_text())
    assert sorted({one["host"] for one in kept["matmul"]}) == ["node1", "node2"]
    assert {one["scope"] for one in kept["messages"] if one["operation"] == "all_reduce"} == {"within", "between"}
    assert all(one["world"] == 2 and one["seconds"] > 0 for one in kept["messages"])
