"""`import flagperf-config`: cluster_conf.py, test_conf.py and the configurations of cases → a suite and a site.

The files are Python; they are read, never run. What cannot be told without running them is listed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.devices.protocol import REGISTRY as DEVICES
from trainmark.errors import UserError
from trainmark.interop.flagperf import static
from trainmark.interop.protocol import Option
from trainmark.interop.reading.records import Counted, Flag, Item, Kept, Verbatim, tidy
from trainmark.spec import workload as workloads
from trainmark.spec.case_id import CaseId, is_name
from trainmark.spec.workload import Workload
from trainmark.store.rundir import RunDir

_CLUSTER, _TEST = "cluster_conf.py", "test_conf.py"
_CASE = re.compile(r"config_(.+)x(\d+)x(\d+)\.py")
# Names of FlagPerf's parameters for what our workloads call otherwise.
_NAMES = {
    "train_batch_size": "batch",
    "max_steps": "steps",
    "max_epoch": "epochs",
    "max_epochs": "epochs",
    "learning_rate": "lr",
    "weight_decay_rate": "weight_decay",
    "num_workers": "workers",
    "target_acc1": "target_accuracy",
    "target_accuracy": "target_accuracy",
}
# Carried over, or known to trainmark by the vendor's name.
_KNOWN = ("VENDOR", "CASES", "HOSTS", "SSH_PORT", "MASTER_PORT", "ACCE_VISIBLE_DEVICE_ENV_NAME", "ACCE_CONTAINER_OPT")


class FlagPerfConfig:
    """Makes `suite.yaml` and `site.yaml` of FlagPerf's configuration."""

    summary = "FlagPerf: cluster_conf.py, test_conf.py and case configurations → a suite and a site (never run)"
    import_options: tuple[Option, ...] | None = (
        Option("preset", "preset of the suite, on which the cases' own values are laid", default="full"),
    )
    export_options: tuple[Option, ...] | None = None
    tools: Mapping[str, str] = {}

    def wants(self, name: str) -> bool:
        last = name.rpartition("/")[2]
        return last in (_CLUSTER, _TEST, "config_common.py") or bool(_CASE.fullmatch(last))

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        modules: dict[str, static.Module] = {}
        unread: list[str] = []
        # What others take names from comes first.
        for file in sorted(files, key=lambda kept: (not kept.name.endswith("config_common.py"), kept.name)):
            folder = file.name.rpartition("/")[0]
            common = modules.get(f"{folder}/config_common.py".lstrip("/"))
            try:
                content = _content(file)
            except (EOFError, OSError, zlib.error) as error:
                yield Flag("cut off", file.name, f"the compressed data ends early or is broken: {error}")
                continue
            module = static.read(content, {"config_common": common} if common else {})
            modules[file.name] = module
            for one in module.unread:
                place = f"{file.name}:{one.line}" if one.line else file.name
                text = f"{one.name}: {one.why}".removeprefix(": ")
                unread.append(f"{place}: {text}")
                yield Flag("not read statically", place, text, 1)
            taken = module.statements - module.passed - len(module.unread)
            yield Counted(file.name, module.statements, taken, module.passed, len(module.unread))
        made = _Suite(modules, options.get("preset") or "full")
        flags = list(made.flags())
        yield from flags
        if made.found:
            suite, site = made.suite(), made.site()
            left = [f"{flag.place}: {flag.text}" for flag in flags]
            whole = {"suite": suite, "site": site, "not_read_statically": unread, "left_out": left}
            yield Verbatim("flagperf_config.json", tidy(whole))
            yield Verbatim("suite.yaml", *_yaml(suite, left))
            yield Verbatim("site.yaml", *_yaml(site, []))

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:
        raise NotImplementedError


def _content(file: Kept) -> bytes:
    from trainmark.interop.reading import source

    with source.opened(file.path) as stream:
        return stream.read(static.LONGEST + 1)


class _Suite:
    """Cases that trainmark can plan, with their values; the others, and why."""

    def __init__(self, modules: Mapping[str, static.Module], preset: str) -> None:
        self._modules, self._preset = modules, preset
        self._cluster = self._values(_CLUSTER)
        self._test = self._values(_TEST)
        self.found = any(name.rpartition("/")[2] in (_CLUSTER, _TEST) for name in modules)
        self.cases: list[dict[str, Any]] = []
        self._left: list[tuple[str, str]] = []
        self._open = False
        vendor = self._test.get("VENDOR")
        self._vendor = vendor if isinstance(vendor, str) else ""
        self._devices: dict[str, str] = {}
        cases = self._test.get("CASES", {})
        for key, data in (cases if isinstance(cases, dict) else {}).items():
            self._case(str(key), data)

    def _values(self, last: str) -> dict[str, Any]:
        """Of several such files (one for each part of FlagPerf) that of training counts."""
        names = [name for name in sorted(self._modules) if name.rpartition("/")[2] == last]
        best = next((name for name in names if "training" in name), names[0] if names else None)
        return self._modules[best].values if best is not None else {}

    def _case(self, key: str, data: Any) -> None:
        try:
            # FlagPerf takes no notice of further fields.
            found = CaseId.parse(":".join(key.split(":")[:6]))
            known = workloads.find(found.workload, (), "trainmark").workload
            if found.framework not in known.entry:
                raise UserError(f"workload `{found.workload}` has no entry for framework `{found.framework}`")
            if self._preset not in known.presets:
                raise UserError(f"workload `{found.workload}` has no preset `{self._preset}`")
            hosts = self._cluster.get("HOSTS")
            if isinstance(hosts, list) and hosts and found.nnodes > len(hosts):
                raise UserError(f"needs {found.nnodes} hosts, {_CLUSTER} has {len(hosts)}")
        except UserError as error:
            self._left.append((key, str(error)))
            return
        if not DEVICES.knows(self._vendor):
            self._left.append((key, f"VENDOR {self._vendor!r} is not known"))
            return
        if not DEVICES.knows(found.device):
            self._devices[found.device] = self._vendor
        entry: dict[str, Any] = {"case": str(found)}
        if isinstance(data, str) and data:
            entry["data"] = data
        if values := self._parameters(found, known):
            entry["set"] = values
        self.cases.append(entry)

    def _parameters(self, found: CaseId, known: Workload) -> dict[str, Any]:
        """What the vendor's configuration of the case sets and the workload has."""
        folder = f"{self._vendor}/{found.workload}-{found.framework}/config/"
        file = f"{folder}config_{found.device}x{found.nnodes}x{found.nproc}.py"
        name = next((name for name in sorted(self._modules) if f"/{name}".endswith(f"/{file}")), None)
        values: dict[str, Any] = {}
        for theirs, value in (self._modules[name].values if name else {}).items():
            ours = _NAMES.get(theirs, theirs)
            parameter = known.parameters.get(ours)
            if parameter is None or value is None:
                continue
            if ours == "target_accuracy" and isinstance(value, int | float) and value > 1:
                value = value / 100  # FlagPerf has percents here and fractions there.
            try:
                values[ours] = parameter.accept(value, f"{name}: {theirs}")
            except UserError as error:
                self._left.append((f"{found}: {theirs}", str(error)))
                continue
            self._open = self._open or parameter.locked
        return values

    def flags(self) -> Iterator[Flag]:
        for key, why in self._left:
            yield Flag("left out", key, why)
        for name, values in ((_CLUSTER, self._cluster), (_TEST, self._test)):
            for key in sorted(values):
                if key.isupper() and key not in _KNOWN:
                    yield Flag("not carried over", f"{name}: {key}", "trainmark has no such setting")

    def suite(self) -> dict[str, Any]:
        suite: dict[str, Any] = {"schema": 1, "name": "flagperf", "title": "From FlagPerf's test_conf.py"}
        suite["preset"] = self._preset
        if self._open:
            # Its vendors may change what our closed division locks.
            suite["division"] = "open"
        suite["cases"] = self.cases
        return suite

    def site(self) -> dict[str, Any]:
        raw = self._cluster.get("HOSTS")
        hosts = [str(host) for host in raw if is_name(str(host).replace(":", ""))] if isinstance(raw, list) else []
        hosts = [host for host in hosts if host not in ("localhost", "127.0.0.1")] if len(hosts) == 1 else hosts
        site: dict[str, Any] = {"schema": 1, "name": "flagperf", "launcher": "ssh" if hosts else "local"}
        if hosts:
            site["hosts"] = hosts
        if hosts and (entrance := _port(self._cluster.get("SSH_PORT"))) not in (None, 22):
            site["ssh"] = {"port": entrance}
        if (port := _port(self._cluster.get("MASTER_PORT"))) is not None:
            site["master_port"] = port
        if self._devices:
            site["devices"] = dict(sorted(self._devices.items()))
        return site


def _yaml(content: dict[str, Any], remarks: Sequence[str]) -> tuple[bytes, str]:
    import yaml

    text = yaml.safe_dump(tidy(content), sort_keys=False, allow_unicode=True, width=120)
    # A remark is one line, whatever a foreign file put into it.
    text += "".join("# " + " ".join(remark.split())[:400] + "\n" for remark in remarks)
    return text.encode(), text


def _port(value: Any) -> int | None:
    """FlagPerf writes ports as texts."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536 else None
