"""The power of a whole machine, as its board tells over Redfish: HTTPS, JSON, a name and a password.

`EnvironmentMetrics` of a chassis has it, in older schemas `Power`. The certificate of the board is checked, and no
answer leads elsewhere: the password goes to the board alone.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from typing import Any, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from trainmark.devices.node_side.reasons import reason
from trainmark.devices.node_side.tools import Problem

NAME = "redfish"
_ROOT = "/redfish/v1/Chassis"
_SECONDS = 20.0
_MOST_BYTES = 4 << 20
_VARIABLE = "REDFISH_PASSWORD"


class _Wrong(Exception):
    """What is wrong, in words of the board or of the system."""


class Redfish:
    """`settings`: `url`, and where given `user`, `password_file`, `ca_file` and `chassis`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        address = urlsplit(str(settings["url"]))
        self._host, self._port = address.hostname or "", address.port or 443
        self._place: Optional[str] = None

    def read(self) -> Tuple[Optional[float], Problem]:
        """Watts now, or why there are none."""
        try:
            connection = self._connection()
            try:
                return self._watts(connection), None
            finally:
                connection.close()
        except (_Wrong, OSError, http.client.HTTPException, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return None, reason("device-tool-failed", tool=NAME, said="%s: %s" % (self._host, said))

    def _connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=self._settings.get("ca_file"))
        return http.client.HTTPSConnection(self._host, self._port, timeout=_SECONDS, context=context)

    def _watts(self, connection: http.client.HTTPSConnection) -> float:
        if self._place is None:
            self._place = self._find(connection)
        place, self._place = self._place, None  # looked for again if it fails: its firmware may have been changed
        watts = power(self._get(connection, place))
        if watts is None:
            raise _Wrong("no power in what it tells")
        self._place = place
        return watts

    def _find(self, connection: http.client.HTTPSConnection) -> str:
        """The resource that tells the power of the machine: that of the only chassis that tells any, or of the one that
        the site names. A board of devices inside is a chassis, too: adding them up would count devices twice."""
        wanted, found = self._settings.get("chassis"), []  # type: Optional[str], List[str]
        for member in _links(self._get(connection, _ROOT).get("Members")):
            if wanted is not None and member.rstrip("/").rpartition("/")[2] != wanted:
                continue
            chassis = self._get(connection, member)
            places = _links([chassis.get(name) for name in ("EnvironmentMetrics", "Power")])
            found += [place for place in places if self._tells(connection, place)][:1]
        if len(found) == 1:
            return found[0]
        if not found:
            raise _Wrong("no chassis%s tells its power" % (" " + repr(wanted) if wanted else ""))
        raise _Wrong("several chassis tell their power, name one as `chassis`: %s" % ", ".join(found))

    def _tells(self, connection: http.client.HTTPSConnection, place: str) -> bool:
        """One resource that may not be read is no reason to leave out the next."""
        try:
            return power(self._get(connection, place)) is not None
        except _Wrong:
            return False

    def _get(self, connection: http.client.HTTPSConnection, place: str) -> Dict[str, Any]:
        headers = {"Accept": "application/json", "OData-Version": "4.0"}
        user = self._settings.get("user")
        if user:
            pair = "%s:%s" % (user, self._password())
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
        connection.request("GET", place, headers=headers)
        reply = connection.getresponse()
        body = reply.read(_MOST_BYTES)
        if reply.status != 200:
            raise _Wrong("%s: %d %s" % (place, reply.status, reply.reason))
        found = json.loads(body.decode("utf-8"))
        if not isinstance(found, dict):
            raise _Wrong("%s: no JSON object" % place)
        return found

    def _password(self) -> str:
        path = self._settings.get("password_file")
        if path:
            with open(path) as file:
                return file.readline().rstrip("\r\n")
        if _VARIABLE not in os.environ:
            raise _Wrong("no password: `password_file` in the site, or %s on the node" % _VARIABLE)
        return os.environ[_VARIABLE]


def power(record: Mapping[str, Any]) -> Optional[float]:
    """Watts of an `EnvironmentMetrics` or a `Power` resource; of a `Power` with several entries that of the chassis."""
    environment = record.get("PowerWatts")
    if isinstance(environment, dict):
        return _number(environment.get("Reading"))
    entries = [one for one in _listed(record.get("PowerControl")) if isinstance(one, dict)]
    if len(entries) > 1:
        entries = [one for one in entries if one.get("PhysicalContext") == "Chassis"]
    return _number(entries[0].get("PowerConsumedWatts")) if len(entries) == 1 else None


def _number(value: Any) -> Optional[float]:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return float(value) if known else None


def _listed(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


def _links(values: Any) -> List[str]:
    """Where references of OData lead, on the same board."""
    found = [one.get("@odata.id") for one in _listed(values) if isinstance(one, dict)]
    return [one for one in found if isinstance(one, str) and one.startswith("/") and not one.startswith("//")]
