"""The notebook in docs/, executed by a real Jupyter kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("notebook")
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    assert len(list((folder / "runs").glob("*/manifest.json"))) == 2
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any, kind: str) -> str:
    return "".join(output.data[kind] for output in cell.outputs if kind in output.get("data", {}))


def test_a_case_is_run_and_shows_itself(cells: list[Any]) -> None:
    run = cells[1]
    assert "round 5: ended" in "".join(output.get("text", "") for output in run.outputs)
    assert "SUCCEEDED" in shown(run, "text/html") and "noop:none:cpu:1:1:5" in shown(run, "text/html")
    assert "throughput" in shown(cells[2], "text/html")


def test_it_is_plotted(cells: list[Any]) -> None:
    assert len(shown(cells[3], "image/png")) > 1000


def test_two_runs_are_compared(cells: list[Any]) -> None:
    words = ("faster", "slower", "equivalent", "inconclusive")
    assert any(word in shown(cells[4], "text/html") for word in words)
    assert "SUCCEEDED" in shown(cells[6], "text/plain")


def test_it_ships_without_outputs() -> None:
    assert '"output_type"' not in NOTEBOOK.read_text()
