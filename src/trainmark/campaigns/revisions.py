"""Revisions of somebody's own code: which lie between two, and each checked out in a folder of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from trainmark.errors import SiteError, UserError


def git(repo: Path, *argv: str) -> str:
    """The output of git; its own message where it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repo), "-c", "core.fsmonitor=false", *argv], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise SiteError("git is not on PATH; install it") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise UserError(f"git {argv[0]}: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stdout.strip()


def root(folder: Path) -> Path:
    """The top of the work tree that a folder lies in."""
    try:
        return Path(git(folder, "rev-parse", "--show-toplevel"))
    except UserError as error:
        raise UserError(f"{folder}: no git work tree here ({error}); name one with --repo") from None


def commit(repo: Path, revision: str, option: str) -> str:
    try:
        return git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except UserError:
        raise UserError(f"{option} {revision}: {repo} has no such revision") from None


def between(repo: Path, good: str, bad: str) -> list[str]:
    """Every commit after `good` up to `bad`, oldest first, along first parents: a merge is one step."""
    if good == bad:
        raise UserError("--good and --bad are the same commit")
    if git(repo, "merge-base", good, bad) != good:
        raise UserError(f"--good {good[:12]} is no ancestor of --bad {bad[:12]}: between them lies no way to search")
    return git(repo, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}").split()


def title(repo: Path, commit: str) -> str:
    return git(repo, "show", "--no-patch", "--format=%h %an, %as: %s", commit)


class Trees:
    """Work trees of single commits, below one folder; all are removed at the end, also those of a killed process."""

    def __init__(self, repo: Path, folder: Path) -> None:
        self._repo, self._folder = repo, folder
        self._made: dict[str, Path] = {}

    def at(self, commit: str) -> Path:
        if commit not in self._made:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / commit[:12]
            self._remove(path)
            # Hooks of the user's repository have no business in a measurement.
            hooks = ("-c", "core.hooksPath=/dev/null")
            git(self._repo, *hooks, "worktree", "add", "--detach", "--force", str(path), commit)
            self._made[commit] = path
        return self._made[commit]

    def __enter__(self) -> Trees:
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._folder.glob("*"):
            self._remove(path)
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        git(self._repo, "worktree", "prune")

    def _remove(self, path: Path) -> None:
        """One that is half made is no work tree to git."""
        if path.exists():
            argv = ["git", "-C", str(self._repo), "worktree", "remove", "--force", str(path)]
            subprocess.run(argv, capture_output=True, check=False)
            shutil.rmtree(path, ignore_errors=True)
