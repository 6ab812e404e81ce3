"""CPU time of a run in which nothing happens: `trainmark run noop` beside TorchX's echo and a ReFrame check of `true`.

trainmark starts an agent, contains and samples a Python rank, and keeps a run directory that it scores. The peers start
a program of a few kilobytes. In a git checkout trainmark also asks git for the commit: the bars are held in one. What
making the checkout left to be written is on the disk before the clock starts, or trainmark, which alone waits for the
disk, would be charged with it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from figures import show, spread, times_less
from harness import HERE, Workspace, interleaved, peer, trainmark_run, workspace

REPEATS = 15
CHECKOUT_FILES = 200
HOW = (
    f"user + system time of all processes, median of {REPEATS} interleaved repeats after a warm-up, each in a "
    "fresh folder, written to disk before; trainmark inside a git checkout. trainmark's byte code is compiled "
    "beforehand, as pip does for the peers"
)
CHECK = str(HERE / "peers" / "noop_check.py")


def checkout(place: Workspace) -> Path:
    """A fresh git checkout with a commit in it."""
    folder = place.fresh()
    for number in range(CHECKOUT_FILES):
        (folder / f"file{number}.txt").write_text(f"{number}\n")
    identity = ["-c", "user.name=perf", "-c", "user.email=perf@localhost"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=folder, env=place.env, check=True)
    os.sync()
    return folder


def main() -> None:
    with workspace() as place:
        torchx = [peer("torchx"), "run", "-s", "local_cwd", "utils.echo", "--msg", "hi"]
        reframe = [peer("reframe"), "-c", CHECK, "-r"]
        ours = trainmark_run("noop")
        spent = interleaved(
            {
                "trainmark in a git checkout": lambda: place.spend(ours, checkout(place), expect="SUCCEEDED"),
                "trainmark elsewhere": lambda: place.spend(ours, place.fresh(), expect="SUCCEEDED"),
                "TorchX": lambda: place.spend(torchx, place.fresh(), expect="Job finished: SUCCEEDED"),
                "ReFrame": lambda: place.spend(reframe, place.fresh(), expect="Ran 1/1"),
            },
            REPEATS,
        )
    cpu = {name: [one.cpu for one in all_of] for name, all_of in spent.items()}
    mine = cpu["trainmark in a git checkout"]
    figures = [
        times_less("no-op run, CPU time", "s", mine, "TorchX", cpu["TorchX"], 1.5),
        times_less("no-op run, CPU time", "s", mine, "ReFrame", cpu["ReFrame"], 1.5),
    ]
    details = {
        name: {"cpu_s": spread([one.cpu for one in all_of]), "wall_s": spread([one.wall for one in all_of])}
        for name, all_of in spent.items()
    }
    show("noop", HOW, figures, details)


if __name__ == "__main__":
    main()
