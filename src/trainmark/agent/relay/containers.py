"""Containers as a relay handles them: by the engine's own program, found again by their names."""

from __future__ import annotations

import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SECONDS = 15.0


def run(argv: list[str], seconds: float) -> tuple[int, str]:
    """Exit code and the text that tells most."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return 124, "%s did not answer within %g s" % (argv[0], seconds)
    except OSError as error:
        return 127, "%s: %s" % (argv[0], error.strerror)
    text = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return done.returncode, text.decode("utf-8", "replace").strip()


def ask(engine: str, *words: str) -> tuple[int, str]:
    return run([engine, *words], _SECONDS)


def hindrance(container: dict[str, Any]) -> str | None:
    """Why the container cannot be started, in plain words."""
    engine, image = container["engine"], container["image"]
    code, text = ask(engine, "image", "inspect", "--format", "{{.Id}}", image)
    if code == 0:
        return None
    alive, said = ask(engine, "version")
    if alive != 0:
        return "the container engine %s does not work: %s" % (engine, _last(said))
    return "image %s is not here: load or pull it, or set `pull: missing` in the site (%s)" % (image, _last(text))


def running(container: dict[str, Any]) -> bool:
    code, text = ask(container["engine"], "inspect", "--format", "{{.State.Running}}", container["name"])
    return code == 0 and text == "true"


def signal(container: dict[str, Any], name: str) -> None:
    ask(container["engine"], "kill", "--signal", name, container["name"])


def remove(container: dict[str, Any]) -> None:
    ask(container["engine"], "rm", "--force", container["name"])


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
