"""Which framework is faster: one command, verdicts included."""

from __future__ import annotations

import json

import pytest

SUITE = """\
schema: 1
name: race
preset: smoke
window: {{skip: 2, steps: 40}}
cases:
  - mnist:pytorch:cpu:1:1:3@batch=8,data={data},steps=50
  - mnist:jax:cpu:1:1:3@batch=8,data={data},steps=50
"""


@pytest.mark.frameworks
def test_a_suite_of_two_frameworks_ends_with_a_verdict(cli, whole_cache, digits):
    (cli.folder / "race.yaml").write_text(SUITE.format(data=digits))
    report = json.loads(cli("run", "race.yaml", "--json", timeout=600).stdout)
    (contest,) = report["contests"]
    first, second = contest["rivals"]
    assert {first["framework"], second["framework"]} == {"pytorch", "jax"}
    assert first["word"] == "fastest" and first["share"] == 1.0
    assert second["word"] in ("slower", "equivalent", "inconclusive") and 0 < second["share"] <= 1
    assert second["verdict"]["method"].startswith("paired"), "rounds of one block belong together"
    said = cli("report").stdout
    assert "fastest" in said and f"% of the fastest: {second['word']}" in said
