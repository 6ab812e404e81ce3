"""The dashboard against Grafana's own records: those for Python, and the types of Grafana itself.

No Grafana can be installed by a package's name from Debian, PyPI or npm, so none is started here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from trainmark.launch import monitoring

# What `Share › Export` puts beside a dashboard, and `Import` asks for; no part of the dashboard itself.
BESIDE = "__inputs"


def lost(ours: Any, theirs: Any, at: str = "") -> Iterator[str]:
    """Where a value of ours is not in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            yield from lost(value, theirs[name], f"{at}/{name}") if name in theirs else [f"{at}/{name}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(*pair, f"{at}/{place}")
    elif ours != theirs:
        yield at


def read_by_grafanas_records(made: dict[str, Any]) -> dict[str, Any]:
    register_default_plugins()
    found: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(made)))
    return found


def test_nothing_of_the_dashboard_is_unknown_to_grafanas_records() -> None:
    made = monitoring.dashboard("lab")
    assert list(lost(made, read_by_grafanas_records(made))) == [f"/{BESIDE}"]


def test_a_misspelt_field_would_be_seen() -> None:
    made = monitoring.dashboard("lab")
    made["panels"][0]["fieldConfig"]["defaults"]["units"] = "watt"
    made["panels"][1]["targets"][0]["expression"] = "up"
    found = list(lost(made, read_by_grafanas_records(made)))
    assert "/panels/0/fieldConfig/defaults/units" in found and "/panels/1/targets/0/expression" in found


# Enumerations of strings take no plain strings in TypeScript, and JSON has nothing else.
_PROGRAM = """\
import type { Dashboard } from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';
import type { Options }
  from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
export const dashboard: Dashboard = %s;
export const options: Plain<Options>[] = %s;
"""


def checked(folder: Path, made: dict[str, Any]) -> str:
    """What the compiler says of a dashboard, written as a value of Grafana's type."""
    options = [panel["options"] for panel in made["panels"]]
    plain = {name: value for name, value in made.items() if name != BESIDE}
    (folder / "check.ts").write_text(_PROGRAM % (json.dumps(plain), json.dumps(options)))
    flags = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]
    done = subprocess.run(["node_modules/.bin/tsc", *flags, "check.ts"], cwd=folder, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm")
def test_grafanas_own_types_accept_the_dashboard(tmp_path: Path) -> None:
    """`@grafana/schema` 13 is a part of Grafana 13."""
    (tmp_path / "package.json").write_text("{}")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "typescript@5", "@grafana/schema@13"]
    if subprocess.run(install, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("npm cannot install here")
    made = monitoring.dashboard("lab")
    assert checked(tmp_path, made) == ""
    del made["panels"][0]["options"]["tooltip"]
    made["templating"]["list"][0]["multiple"] = True
    said = checked(tmp_path, made)
    assert "tooltip" in said and "multiple" in said
