"""Goes the way of the documentation's first page, from an empty environment to a compared result, and times each step.

    python tools/newcomer.py [PIP-OPTION …]

The package is built from this clone. Options go to `pip install`: `-c constraints.txt` takes the PyTorch of
`make bench`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "index.md"
PART = "## Five minutes"


def commands() -> Iterator[str]:
    """Those of the page's first part, as they stand there."""
    part = PAGE.read_text("utf-8").partition(PART)[2].partition("\n## ")[0]
    for block in re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S):
        yield from block.splitlines()


def main() -> None:
    options = [str(Path(word).resolve()) if Path(word).exists() else word for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="trainmark-newcomer-") as made:
        folder = Path(made)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = (folder / "dist").glob("*.whl")
        env = {"PATH": f"{folder / 'env' / 'bin'}:{os.environ['PATH']}", "HOME": made, "LANG": "C.UTF-8"}
        whole = 0.0
        for line in commands():
            argv = shlex.split(line)
            if argv[:2] == ["pip", "install"]:
                argv[2:] = [*options, f"{argv[2]} @ {wheel.as_uri()}"]
            if "&&" in argv:
                # What follows makes the environment that of the shell: here its folder is first in PATH.
                argv = argv[: argv.index("&&")]
            began = time.monotonic()
            done = subprocess.run(argv, cwd=folder, env=env, check=False, stdout=sys.stderr)
            took = time.monotonic() - began
            whole += took
            print(f"{took:7.1f} s  {line}", flush=True)
            # A comparison that shows nothing is an answer, too.
            if done.returncode not in (0, 4, 5):
                raise SystemExit(f"ended with exit code {done.returncode}")
        print(f"{whole:7.1f} s  in all; load average {' '.join(f'{one:.1f}' for one in os.getloadavg())}")


if __name__ == "__main__":
    main()
