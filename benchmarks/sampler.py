"""What watching costs: the CPU share of the agent, sampling at 1 Hz, beside a rank that does nothing; and that of the
process that reads 16 devices, by a vendor's library and by a vendor's tool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import median

from figures import at_most, show, spread
from harness import HERE, OURS, Workspace, only, result, trainmark_run, workspace

SECONDS = 25
DEVICES, DEVICE_SECONDS = 16, 20
FAKES = HERE.parent / "tests/devices"
HOW = (
    f"CPU time of the agent over its whole life, start included, ÷ its duration, while a rank sleeps for {SECONDS} s; "
    f"% of one core. Devices: CPU time of the process that reads {DEVICES} of them once a second for "
    f"{DEVICE_SECONDS} s, its start not included, through the tests' library with NVML's interface and that with "
    "DCMI's; beside it the same with a tool in the place of nvidia-smi that writes a recording and does nothing else, "
    "whose own time is part of the figure. No real library or tool is here: what theirs cost comes on top"
)


def _samples(folder: Path) -> list[float]:
    """The agent's own account of itself, sample by sample, in % of one core."""
    lines = only(folder, "samples.jsonl").read_text().splitlines()[1:]
    shares = [json.loads(line)["agent_cpu"] for line in lines]
    return [100 * share for share in shares if share is not None]


def _compiled(source: str, library: Path) -> Path:
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, FAKES / source, "-lm"], check=True)
    return library.parent


def _reading(place: Workspace, vendor: str, **env: str) -> float:
    """% of one core that the process uses which reads a vendor's devices, tools that it starts included."""
    argv = [str(OURS / "python"), "-m", "trainmark.agent", "watch-devices", vendor, "1.0"]
    watch = subprocess.Popen(argv, cwd=place.fresh(), env={**place.env, **env}, stdout=subprocess.PIPE, text=True)
    assert watch.stdout is not None
    records = [json.loads(watch.stdout.readline()) for _ in range(DEVICE_SECONDS + 2)]
    watch.kill()
    watch.communicate()
    # The first is what there is, the second came at once.
    costs = [record["devices_cpu"] for record in records[2:]]
    if any(len(record["devices"]) != DEVICES for record in records[1:]):
        raise SystemExit(f"{vendor}: not {DEVICES} devices: {records[-1]}")
    return 100 * sum(costs) / len(costs)


def _devices(place: Workspace) -> dict[str, float]:
    nvml = _compiled("fake_nvml.c", place.fresh() / "libnvidia-ml.so.1")
    dcmi = _compiled("fake_dcmi.c", place.fresh() / "libdcmi.so")
    tools = place.fresh()
    one = (FAKES / "recordings/nvidia-smi-t4.xml").read_text()
    begin, end = one.index("<gpu "), one.index("</gpu>") + len("</gpu>")
    (tools / "said").write_text(one[:begin] + one[begin:end] * DEVICES + one[end:])
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\nexec cat {tools / 'said'}\n")
    (tools / "nvidia-smi").chmod(0o755)
    return {
        "NVML": _reading(place, "nvidia", LD_LIBRARY_PATH=str(nvml), FAKE_NVML_DEVICES=str(DEVICES)),
        "DCMI": _reading(place, "ascend", LD_LIBRARY_PATH=str(dcmi), FAKE_DCMI_CARDS=str(DEVICES // 2)),
        "tool": _reading(place, "nvidia", PATH=f"{tools}:{place.env['PATH']}"),
    }


def main() -> None:
    with workspace() as place:
        devices = _devices(place)
        folder = place.fresh()
        argv = trainmark_run("noop:none:cpu:1:1:1", "--preset", "smoke", "--set", f"seconds={SECONDS}")
        place.spend(argv, folder, expect="SUCCEEDED")
        said, samples = result(folder), _samples(folder)
    if len(samples) < SECONDS - 2:
        raise SystemExit(f"{len(samples)} samples in {SECONDS} s: the sampler did not run at 1 Hz")
    share = 100 * said["overhead"]["agent_cpu_s"] / said["duration"]
    figures = [
        at_most("agent and sampler at 1 Hz, CPU share of one core", "%", share, 1),
        at_most(
            f"reading {DEVICES} devices at 1 Hz through NVML's interface, CPU share of one core",
            "%",
            devices["NVML"],
            1,
        ),
        at_most(
            f"reading {DEVICES} devices at 1 Hz through DCMI's interface, CPU share of one core",
            "%",
            devices["DCMI"],
            1,
        ),
    ]
    details = {
        "by_tool_percent": devices["tool"],
        "samples_percent": spread(samples),
        "steady_percent": median(samples),
    }
    show("sampler", HOW, figures, {**details, "agent_cpu_s": said["overhead"]["agent_cpu_s"]})


if __name__ == "__main__":
    main()
