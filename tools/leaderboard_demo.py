"""`make leaderboard-demo`: runs two cases here, packs and signs them, makes a site of them in `build/leaderboard`."""

import os
from pathlib import Path

from trainmark import api, api_trust
from trainmark.trust import keys

OUT = Path("build/leaderboard")
CASES = ("resnet50:pytorch:cpu:1:1:3", "resnet50:pytorch:cpu:1:2:3")


def main() -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    # A key of its own: nobody's configuration is touched.
    os.environ["XDG_CONFIG_HOME"] = str((OUT.parent / "leaderboard-keys").resolve())
    if "demo" not in {one.name for one in keys.listed()}:
        keys.create("demo")
    bundles = []
    for number, case in enumerate(CASES, 1):
        print(f"running {case}", flush=True)
        run = api.run(case, runs=OUT.parent / "leaderboard-runs", preset="quick")
        bundles.append(OUT.parent / f"demo{number}.tmk")
        print(api_trust.pack(run, bundles[-1], key="demo").path, flush=True)
    for one in api_trust.leaderboard(bundles, OUT, title="This machine"):
        print(f"{one.bundle}: {'verified' if one.verified else [str(fault.reason.code) for fault in one.faults()]}")
    print(f"open {OUT / 'index.html'}")


if __name__ == "__main__":
    main()
