"""Pictures of the server's pages, `docs/pictures/web-*.png`: of a server with users, sites and jobs, in Chromium.

Takes some minutes, most of them for real trainings; `trainmark data get fashion-mnist` must have been run.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures"
PORT, PASSWORD = 8479, "correct horse battery"
ADDRESS = f"http://127.0.0.1:{PORT}"
RULES = "schema: 1\nsites:\n  local: {submit: users, slots: 4}\n"
LAB = "launcher: ssh\nhosts: [n1, n2, n3, n4, n5]\naccelerators: {device: nvidia, count: 8}\n"
# A training as many write them: it prints, and takes its time.
TRAIN = r"""python3 - <<'END'
import random, time
print("\x1b[1mresnet-tiny\x1b[0m, 2 workers", flush=True)
for step in range(100000):
    time.sleep(0.3)
    loss = 2.3 * 0.997**step + random.random() * 0.05
    print(f"step {step:6d}  loss \x1b[36m{loss:.4f}\x1b[0m  {random.randint(480, 520)} images/s", flush=True)
    if step % 12 == 11:
        print("\x1b[33mwarning\x1b[0m: the loader is behind", flush=True)
END
"""
# Seconds in which jobs must be where a picture needs them.
PATIENCE = 600.0


@contextmanager
def served(home: Path) -> Iterator[str]:
    """The link of the first admin."""
    (home / "sites").mkdir(parents=True)
    home.chmod(0o700)
    (home / "server.yaml").write_text(RULES)
    (home / "sites" / "lab.yaml").write_text(LAB)
    said = home / "said"
    with said.open("w") as out:
        argv = [sys.executable, "-m", "trainmark", "serve", "--home", str(home), "--port", str(PORT)]
        process = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r"/link#(\S+)", said.read_text())):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(said.read_text())
            time.sleep(0.1)
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


class Person:
    """Somebody with a browser, who also asks the API."""

    def __init__(self, browser: Any, link: str, width: int = 1280) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 860})
        self.page = self.context.new_page()
        self.page.goto(f"{ADDRESS}/link#{link}")
        self.page.fill("[name=password]", PASSWORD)
        self.page.fill("[name=again]", PASSWORD)
        self.page.click("[type=submit]")
        self.page.wait_for_url(f"{ADDRESS}/")

    def ask(self, method: str, path: str, data: Any = None) -> Any:
        csrf = self.page.evaluate("JSON.parse(document.getElementById('session').textContent).csrf")
        answer = self.context.request.fetch(
            f"{ADDRESS}/api/v1{path}", method=method, data=data, headers={"x-csrf-token": csrf}
        )
        if not answer.ok:
            raise SystemExit(f"{method} {path}: {answer.text()}")
        return answer.json() if answer.text() else None

    def submit(self, name: str, **spec: Any) -> str:
        return str(self.ask("POST", "/jobs", {"name": name, "visibility": "all", **spec})["job"]["id"])

    def wait(self, job: str, *states: str) -> None:
        until = time.monotonic() + PATIENCE
        while (found := self.ask("GET", f"/jobs/{job}")["job"])["state"] not in states:
            if time.monotonic() > until:
                raise SystemExit(f"{found['name']} is still {found['state']}")
            time.sleep(0.5)

    def picture(self, name: str, path: str, seconds: float = 2.0) -> None:
        self.page.goto(ADDRESS + path)
        self.page.wait_for_timeout(1000 * seconds)
        self.page.screenshot(path=OUT / f"web-{name}.png")


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "home") as link, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"))
        admin = Person(browser, link)
        anna, bob = (
            Person(browser, admin.ask("POST", "/users", {"name": name, "role": "user"})["link"])
            for name in ("anna", "bob")
        )
        admin.ask("PUT", "/hosts/n2/drain", {"why": "new power supply"})
        admin.ask("PUT", "/hosts/n4/reserve", {"users": ["anna"], "why": "paper deadline"})
        nightly = [
            anna.submit("mnist-nightly", suite="mnist:pytorch:cpu:1:2:3", preset="smoke", seconds=5) for _ in (1, 2)
        ]
        anna.wait(nightly[0], "SUCCEEDED")
        anna.ask("PUT", f"/runs/{nightly[0]}/baseline")
        anna.wait(nightly[1], "RUNNING", "SUCCEEDED")
        anna.picture("metrics", f"/jobs/{nightly[1]}/metrics", 6.0)
        anna.wait(nightly[1], "SUCCEEDED")
        search = anna.submit("search", automl="demo")
        anna.wait(search, "RUNNING")
        until = time.monotonic() + PATIENCE
        while len(anna.ask("GET", f"/runs/{search}/search")["curve"]) < 6 and time.monotonic() < until:
            time.sleep(2.0)
        anna.picture("search", f"/jobs/{search}/search")
        anna.ask("POST", f"/jobs/{search}/stop")
        anna.wait(search, "CANCELLED", "SUCCEEDED", "FAILED")
        failed = bob.submit("bad-config", command="echo 'ValueError: batch must be > 0' >&2; exit 3")
        bob.wait(failed, "FAILED")
        training = bob.submit("resnet-train", command=TRAIN, devices=2)
        anna.submit("mnist-tonight", suite="mnist:pytorch:cpu:1:2:3", preset="smoke")
        bob.wait(training, "RUNNING")
        time.sleep(12.0)
        anna.picture("home", "/", 4.0)
        anna.picture("job", f"/jobs/{nightly[1]}")
        bob.picture("console", f"/jobs/{training}/console")
        anna.picture("report", f"/results/{nightly[1]}")
        anna.picture("compare", f"/compare?run={nightly[0]}&run={nightly[1]}")
        anna.picture("leaderboard", "/leaderboard")
        admin.picture("cluster", "/cluster")
        admin.page.goto(f"{ADDRESS}/submit")
        admin.page.click("[data-template='0']")
        admin.page.select_option("[name=site]", "lab")
        admin.page.locator(".shape-row").nth(0).locator("i").nth(3).click()
        admin.page.screenshot(path=OUT / "web-submit.png", full_page=True)
        bob.ask("POST", f"/jobs/{training}/stop")
        bob.wait(training, "CANCELLED")
        browser.close()


if __name__ == "__main__":
    main()
