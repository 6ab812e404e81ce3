"""A site on an emulated training service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainmark.emulate.modelarts import site_file
from trainmark.emulate.modelarts.faults import Faults
from trainmark.emulate.modelarts.server import Emulator, Options
from trainmark.launch.sites import load_site
from trainmark.spec.site import Site


@pytest.fixture
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Emulator]]:
    made: list[Emulator] = []

    def make(faults: Faults | None = None, **options: Any) -> Emulator:
        options = {"upload_seconds": 0.3, **options}
        emulator = Emulator(tmp_path_factory.mktemp("emulator"), 0, Options(faults=faults or Faults(), **options))
        made.append(emulator.__enter__())
        site_file.write(emulator)
        return emulator

    yield make
    for emulator in made:
        emulator.close()


@pytest.fixture
def emulator(emulate: Callable[..., Emulator]) -> Emulator:
    return emulate()


def site_path(emulator: Emulator, top: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A site file; `top`: keys beside the launcher's, which are `changes`."""
    options = {"poll_seconds": 0.2, "retry_seconds": 20, **changes}
    content = {**site_file.content(emulator, **options), **(top or {})}
    content["launcher"] = {name: value for name, value in content["launcher"].items() if value is not None}  # type: ignore[attr-defined]
    path = emulator.folder / f"site{len(list(emulator.folder.glob('site*')))}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def site_of(emulator: Emulator, **changes: Any) -> Site:
    return load_site(site_path(emulator, **changes), "here")
