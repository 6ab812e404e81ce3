"""A library with NVML's interface, compiled once, and vendors' tools that write what they once wrote."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"


def compiled(source: str, library: Path) -> Path:
    """The folder of a library made of one C file."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / source, "-lm"], check=True)
    return library.parent


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("fake_nvml.c", tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def dcmi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("fake_dcmi.c", tmp_path_factory.mktemp("dcmi") / "libdcmi.so")


@pytest.fixture
def fake_nvml(nvml_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Processes started from now on find the library, as they would find NVIDIA's."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return nvml_folder


@pytest.fixture
def fake_dcmi(dcmi_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Processes started from now on find the library, as they would find Ascend's."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(dcmi_folder))
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    return dcmi_folder


@pytest.fixture
def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a tool on the PATH that writes a recording, as often as it is asked."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{_path()}")

    def make(name: str, recording: str, *, hangs: bool = False) -> None:
        body = "exec sleep 600" if hangs else f"exec cat {RECORDINGS / recording}"
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return make


def _path() -> str:
    import os

    return os.environ["PATH"]
