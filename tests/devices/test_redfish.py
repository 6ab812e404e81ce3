"""The power of a machine over Redfish: a board with a certificate, a name and a password, that answers in the schemas
of the public mock-ups of the DMTF (Redfish-Mockup-Server: `EnvironmentMetrics` 1.3, `Power` 1.7)."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.devices.node_side.redfish import Redfish

SECRET = "correct horse"
WATTS = 374
_CHASSIS = "/redfish/v1/Chassis"


def link(place: str) -> dict[str, str]:
    return {"@odata.id": place}


def newer() -> dict[str, Any]:
    one = f"{_CHASSIS}/1U"
    return {
        _CHASSIS: {"Members": [link(one)]},
        one: {"Id": "1U", "EnvironmentMetrics": link(f"{one}/EnvironmentMetrics"), "Power": link(f"{one}/Power")},
        f"{one}/EnvironmentMetrics": {"PowerWatts": {"Reading": WATTS}, "TemperatureCelsius": {"Reading": 39}},
        f"{one}/Power": {"PowerControl": [{"MemberId": "0", "PowerConsumedWatts": 344}]},
    }


def older() -> dict[str, Any]:
    found = newer()
    del found[f"{_CHASSIS}/1U"]["EnvironmentMetrics"]
    return found


def with_a_board_of_devices() -> dict[str, Any]:
    found, inner = newer(), f"{_CHASSIS}/HGX_Chassis_0"
    found[_CHASSIS]["Members"].append(link(inner))
    found[inner] = {"EnvironmentMetrics": link(f"{inner}/EnvironmentMetrics")}
    found[f"{inner}/EnvironmentMetrics"] = {"PowerWatts": {"Reading": 2000}}
    return found


class Bmc:
    """`tree`: what it tells, by path. `asked`: what it was asked, with the name that was given."""

    def __init__(self, folder: Path, tree: dict[str, Any]) -> None:
        self.tree, self.asked = tree, []  # type: dict[str, Any], list[str]
        key, self.certificate = folder / "key.pem", folder / "board.pem"
        argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        argv += ["-keyout", str(key), "-out", str(self.certificate), "-days", "2", "-subj", "/CN=localhost"]
        subprocess.run([*argv, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        board = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = self.headers.get("Authorization", "").removeprefix("Basic ")
                board.asked.append(self.path)
                known = base64.b64decode(given).decode() == f"monitor:{SECRET}"
                found = board.tree.get(self.path) if known else None
                self.send_response(200 if found is not None else (404 if known else 401))
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"https://localhost:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    found = Bmc(tmp_path, newer())
    yield found
    found.close()


def settings(bmc: Bmc, tmp_path: Path, **more: Any) -> dict[str, Any]:
    (tmp_path / "secret").write_text(SECRET + "\n")
    known = {"user": "monitor", "password_file": str(tmp_path / "secret"), "ca_file": str(bmc.certificate)}
    return {"url": bmc.url, **known, **more}


@pytest.mark.parametrize(("tree", "watts"), [(newer(), WATTS), (older(), 344)])
def test_both_schemas(bmc: Bmc, tmp_path: Path, tree: dict[str, Any], watts: float) -> None:
    bmc.tree = tree
    board = Redfish(settings(bmc, tmp_path))
    assert board.read() == (watts, None)
    asked = len(bmc.asked)
    assert board.read() == (watts, None) and len(bmc.asked) == asked + 1, "the way to it is found once"


def test_a_board_that_changes_is_looked_at_anew(bmc: Bmc, tmp_path: Path) -> None:
    """A resource that is not there any more, one that may not be read, and answers that are no lists."""
    board = Redfish(settings(bmc, tmp_path))
    assert board.read() == (WATTS, None)
    del bmc.tree[f"{_CHASSIS}/1U/EnvironmentMetrics"]
    assert "404" in str(board.read()[1])
    assert board.read() == (344, None)
    bmc.tree[f"{_CHASSIS}/1U/Power"] = {"PowerControl": 7}
    assert board.read()[0] is None
    bmc.tree[_CHASSIS] = {"Members": 7}
    assert board.read()[0] is None
    bmc.tree = newer()
    assert board.read() == (WATTS, None)


def test_the_password_in_the_environment(bmc: Bmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: value for name, value in settings(bmc, tmp_path).items() if name != "password_file"}
    assert "REDFISH_PASSWORD" in str(Redfish(known).read()[1])
    monkeypatch.setenv("REDFISH_PASSWORD", SECRET)
    assert Redfish(known).read() == (WATTS, None)


def test_several_chassis_are_not_added_up(bmc: Bmc, tmp_path: Path) -> None:
    bmc.tree = with_a_board_of_devices()
    watts, why = Redfish(settings(bmc, tmp_path)).read()
    assert watts is None and "HGX_Chassis_0" in str(why) and "`chassis`" in str(why)
    assert Redfish(settings(bmc, tmp_path, chassis="1U")).read() == (WATTS, None)


def test_what_is_wrong_is_said_without_the_password(bmc: Bmc, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("wrong horse\n")
    for more, word in (
        ({"password_file": str(tmp_path / "other")}, "401"),
        ({"ca_file": None}, "certificate"),
        ({"url": "https://localhost:1"}, "refused"),
        ({"password_file": str(tmp_path / "gone")}, "No such file"),
        ({"chassis": "2U"}, "2U"),
    ):
        watts, why = Redfish(settings(bmc, tmp_path, **more)).read()
        assert watts is None and word in str(why) and "horse" not in str(why)
    assert bmc.asked.count(_CHASSIS) == 2, "a board that nobody vouches for was asked nothing"


def test_a_round_has_the_power_of_its_machine(cli: Cli, bmc: Bmc, tmp_path: Path) -> None:
    asked = {**settings(bmc, tmp_path), "every": 1}
    (cli.folder / "site.yaml").write_text(json.dumps({"redfish": asked}))
    cli("run", "noop:none:cpu:1:1:1", "--site", "site.yaml", "--set", "seconds=3", "--set", "steps=30")
    rows = cli.json("energy", cli.run_id(), "--json")
    (board,) = [one for one in rows if (one["part"], one["over"]) == ("board", "round")]
    assert (board["mean_w"], board["max_w"], board["way"]) == (pytest.approx(WATTS), WATTS, "power")
    assert board["joules"] == pytest.approx(WATTS * board["seconds"] * board["coverage"], rel=0.01)
    for file in (cli.folder / "runs").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("redfish: {url: 'http://bmc'}", "https://BOARD"),
        ("redfish: {url: 'https://me:secret@bmc'}", "https://BOARD"),
        ("redfish: {url: 'https://bmc:abc'}", "https://BOARD"),
        ("redfish: {url: 'https://bmc', every: 0}", "1 second and more"),
        ("{ipmi: {}, redfish: {url: 'https://bmc'}}", "not by both"),
        ("redfish: {url: 'https://bmc', password: x}", "password"),
    ],
)
def test_a_wrong_site_is_refused(cli: Cli, text: str, said: str) -> None:
    (cli.folder / "site.yaml").write_text(text + "\n")
    assert said in cli("run", "noop:none:cpu:1:1:1", "--site", "site.yaml", code=2).stderr
