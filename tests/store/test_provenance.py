from __future__ import annotations

import subprocess
from pathlib import Path

from trainmark.store import provenance


def test_secrets_are_not_kept() -> None:
    kept = provenance.environment(
        {
            "OMP_NUM_THREADS": "2",
            "HOME": "/home/me",
            "AWS_SECRET_ACCESS_KEY": "abc",
            "NCCL_AUTH_TOKEN": "abc",
            "SLURM_JWT_KEY": "abc",
            "TORCH_HUB": "https://me:pass@host/x",
            "CUDA_VISIBLE_DEVICES": "0,1",
        }
    )
    assert kept == {
        "OMP_NUM_THREADS": "2",
        "HOME": None,
        "AWS_SECRET_ACCESS_KEY": None,
        "NCCL_AUTH_TOKEN": None,
        "SLURM_JWT_KEY": None,
        "TORCH_HUB": None,
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_git_state(tmp_path: Path) -> None:
    assert provenance.git_state(tmp_path) is None

    def git(*argv: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x", *argv], check=True)

    git("init", "-q", "-b", "main")
    (tmp_path / "file").write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    clean = provenance.git_state(tmp_path)
    assert clean is not None and clean["branch"] == "main" and not clean["dirty"] and len(clean["commit"]) == 40
    (tmp_path / "file").write_text("2")
    dirty = provenance.git_state(tmp_path)
    assert dirty is not None and dirty["dirty"]


def test_packages_are_found_by_their_folders(tmp_path: Path) -> None:
    (tmp_path / "some_thing-1.2.3.dist-info").mkdir()
    (tmp_path / "other").mkdir()
    assert provenance.packages([str(tmp_path), "/no/such/folder"]) == {"some_thing": "1.2.3"}
