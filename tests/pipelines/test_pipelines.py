"""Other people's pipelines: the action's and template's script, the files themselves, badges, the plug-in of pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from tests.conftest import Cli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
pytest_plugins = ("pytester",)


def measure(folder: Path, suite: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "SUITE": suite, **more}
    argv = [str(ROOT / "ci" / "measure")]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


TRAIN = """\
import time
for i in range(40):
    time.sleep(SECONDS)
    print(f"step {i} loss {1 / (i + 1):.3f}", flush=True)
"""
SUITE = """\
name: speed
window: {{skip: 5, steps: 30}}
cases:
  - command: [{python}, train.py]
    name: train
    batch: 8
    repeat: 4
    pattern: 'step (?P<step>\\d+) loss (?P<loss>\\S+)'
"""


def test_the_script_measures_compares_and_fails_on_a_regression(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE.format(python=sys.executable))
    codes = []
    for seconds in ("0.01", "0.01", "0.03"):
        (tmp_path / "train.py").write_text(TRAIN.replace("SECONDS", seconds))
        done = measure(tmp_path, "suite.yaml", BASELINE="true" if not codes else "false", FAIL_OVER="20%")
        codes.append(done.returncode)
        assert json.loads((tmp_path / "trainmark.json").read_text())["state"] == "SUCCEEDED", done.stderr
        assert (tmp_path / "trainmark.html").is_file()
    assert codes == [0, 0, 4]
    assert "slower" in (tmp_path / "trainmark.md").read_text()


def test_bad_input_is_no_regression(tmp_path: Path) -> None:
    done = measure(tmp_path, "no-such-suite")
    assert done.returncode == 2 and "no built-in suite" in done.stderr


def test_the_files_are_what_their_services_read() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert ("uses" in step) != ("run" in step and step["shell"] == "bash")
        # What comes from outside reaches the shell as a variable, never as text of the script.
        assert "${{" not in step.get("run", "")
    template = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())
    assert {"script", "artifacts", "cache"} <= set(template[".trainmark"])
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "trainmark schema check"
    for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(file.read_text())


def test_badges(cli: Cli) -> None:
    cli("run", "noop")
    made = json.loads(cli("badge", "--json").stdout)
    assert made["schemaVersion"] == 1 and made["label"] == "noop" and made["message"] == "no result"
    cli("badge", "-o", "b.svg", "--label", "a <b>")
    assert ET.parse(cli.folder / "b.svg").getroot().attrib["aria-label"] == "a <b>: no result"
    assert "no case begins with" in cli("badge", "--case", "nosuch", code=2).stderr


PLUGIN_TEST = """
import sys
import pytest

COMMAND = [sys.executable, "train.py"]

@pytest.mark.trainmark(command=COMMAND, name="train", batch=8, repeat=3, fail_over=0.2,
                       window=dict(skip=5, steps=30),
                       pattern=r"step (?P<step>\\d+) loss (?P<loss>\\S+)")
def test_speed(trainmark_run):
    assert trainmark_run.state == "SUCCEEDED"
"""


def test_the_plug_in_fails_a_test_that_became_slower(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_it=PLUGIN_TEST)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    outcomes = []
    for seconds in ("0.01", "0.03"):
        pytester.makepyfile(train=TRAIN.replace("SECONDS", seconds))
        done = pytester.runpytest_subprocess("-p", "trainmark.pytest_plugin", "-q", "-p", "no:cacheprovider")
        outcomes.append(done.parseoutcomes())
    assert outcomes[0] == {"passed": 1}
    assert outcomes[1].get("errors") == 1 or outcomes[1].get("failed") == 1
    assert "slower" in done.stdout.str()
