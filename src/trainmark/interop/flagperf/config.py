"""`import flagperf-config`: cluster_conf.py, test_conf.py and the configurations of cases → a suite and a site.

The files are Python; they are read, never run. What cannot be told without running them is listed.
"""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.devices.protocol import REGISTRY as DEVICES
from trainmark.errors import UserError
from trainmark.interop.flagperf import static
from trainmark.interop.protocol import Option
from trainmark.interop.reading.records import Counted, Flag, Item, Kept, Verbatim, printable, tidy
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
# Always carried over, or refused with a message of its own.
_CARRIED = ("VENDOR", "CASES", "HOSTS", "SSH_PORT", "MASTER_PORT")
# Why others of FlagPerf's settings are not.
_WHY = {
    "ACCE_VISIBLE_DEVICE_ENV_NAME": "trainmark sets the variable that the vendor's device needs",
    "FLAGPERF_PATH": "trainmark brings its programs to the hosts itself; `work_dir` of the site says where",
    "FLAGPERF_LOG_PATH": "logs are in the folder of the run; `trainmark run --runs` says where",
    "HOSTS_PORTS": "ports for the processes are found when they are needed",
}
_NO_SETTING = "trainmark has no such setting"
# What its images are called, and the limits that its containers have.
_IMAGE = "flagperf-{vendor}-{framework}:t_v0.1"
_LIMITS = {"memlock": "-1", "stack": "67108864"}
_LEVELS = ("debug", "info", "warning", "error")


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
            if not made.cases:
                why = "; ".join(f"{key}: {why}" for key, why in made.left[:5]) or "CASES is empty or could not be read"
                raise UserError(f"no case of {_TEST} can be taken over: {why}")
            left = [f"{flag.place}: {flag.text}" for flag in flags] + unread
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
        self.left: list[tuple[str, str]] = []
        self._open = False
        self._images: list[str] = []
        self._seeds: dict[str, int] = {}
        self._used: set[str] = set()  # files of the configurations of cases
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
            self.left.append((key, str(error)))
            return
        if not DEVICES.knows(self._vendor):
            self.left.append((key, f"VENDOR {self._vendor!r} is not known"))
            return
        if not DEVICES.knows(found.device):
            self._devices[found.device] = self._vendor
        entry: dict[str, Any] = {"case": str(found)}
        if isinstance(data, str) and data:
            entry["data"] = data
        elif data:
            self.left.append((f"{key}: {data!r}", "no path as a text: the case is taken over without data"))
        if values := self._parameters(found, known):
            entry["set"] = values
            usual = {name: one.default for name, one in known.parameters.items()} | known.presets[self._preset]
            try:
                own = {name: value for name, value in values.items() if usual.get(name) != value}
                CaseId.parse(str(found.with_variant(own)))
            except UserError as error:
                self.left.append((key, str(error)))
                return
        self.cases.append(entry)
        image = _IMAGE.format(vendor=self._vendor, framework=key.split(":")[1])
        if image not in self._images:
            self._images.append(image)

    def _parameters(self, found: CaseId, known: Workload) -> dict[str, Any]:
        """What the vendor's configuration of the case sets and the workload has. The rest is listed."""
        folder = f"{self._vendor}/{found.workload}-{found.framework}/config/"
        file = f"{folder}config_{found.device}x{found.nnodes}x{found.nproc}.py"
        name = next((name for name in sorted(self._modules) if f"/{name}".endswith(f"/{file}")), None)
        values: dict[str, Any] = {}
        if name is None:
            self.left.append((str(found), f"{file} was not found: the values of preset `{self._preset}` stand"))
            return values
        self._used |= {name, f"{name.rpartition('/')[0]}/config_common.py"}
        for theirs, value in self._modules[name].values.items():
            # Some workloads have FlagPerf's own names.
            ours = theirs if theirs in known.parameters else _NAMES.get(theirs, theirs)
            parameter = known.parameters.get(ours)
            if theirs == "seed" and parameter is None and type(value) is int and 0 <= value < 1 << 31:
                self._seeds[str(found)] = value
                continue
            if parameter is None or value is None:
                why = "it has no value" if value is None else f"workload `{known.name}` has no such parameter"
                self.left.append((f"{found}: {theirs} = {value!r}", why))
                continue
            if parameter.only and found.framework not in parameter.only:
                self.left.append((f"{found}: {theirs} = {value!r}", f"it is for {', '.join(parameter.only)}"))
                continue
            if ours == "target_accuracy" and isinstance(value, int | float) and value > 1:
                value = value / 100  # FlagPerf has percents here and fractions there.
            try:
                values[ours] = parameter.accept(value, f"{name}: {theirs}")
            except UserError as error:
                self.left.append((f"{found}: {theirs}", str(error)))
                continue
            self._open = self._open or parameter.locked
        return values

    def flags(self) -> Iterator[Flag]:
        site, suite = self.site(), self.suite()
        for key, why in self.left:
            yield Flag("left out", key, why)
        for name in sorted(self._modules):
            last = name.rpartition("/")[2]
            if last not in (_CLUSTER, _TEST) and name not in self._used and self._modules[name].values:
                yield Flag("left out", name, f"no case of {_TEST} that was taken over uses it")
        if "seed" not in suite:
            for case, seed in self._seeds.items():
                why = "a suite has one seed, and not all cases have this one"
                yield Flag("not carried over", f"{case}: seed = {seed}", why)
        for host in self._odd_hosts():
            yield Flag("left out", f"{_CLUSTER}: HOSTS", f"found {host!r}, allowed is a host name or an address")
        if "HOSTS" in self._cluster and not isinstance(self._cluster["HOSTS"], list):
            yield Flag("left out", f"{_CLUSTER}: HOSTS", "found no list of hosts")
        for image in self._images[1:]:
            yield Flag(
                "left out", f"image {image}", "a site has one image: write a site for each, and run them in turn"
            )
        for name, values in ((_CLUSTER, self._cluster), (_TEST, self._test)):
            for key in sorted(values):
                why = self._not_carried(key, values[key], site)
                if why:
                    yield Flag("not carried over", f"{name}: {key} = {values[key]!r}", why)

    def _not_carried(self, key: str, value: Any, site: Mapping[str, Any]) -> str:
        """Why a setting is not in the suite or the site; empty when it is."""
        container = site.get("container", {})
        held = {
            "CLEAR_CACHES": "clear_caches" in site,
            "FLAGPERF_LOG_LEVEL": "log_level" in site,
            "PIP_SOURCE": "prepare" in site,
            "SHM_SIZE": "shm_size" in container,
            "ACCE_CONTAINER_OPT": "options" in container or not value,
            "SSH_PORT": "ssh" in site,
            "MASTER_PORT": "master_port" in site,
        }
        if held.get(key, key in _CARRIED):
            return ""
        if key in ("SHM_SIZE", "ACCE_CONTAINER_OPT", "PIP_SOURCE", "SSH_PORT", "CLEAR_CACHES") and not site.get(
            "hosts"
        ):
            return "only this machine is named, where trainmark starts no container; name hosts to use it"
        return _WHY.get(key, f"found {value!r}, which is not allowed" if key in held else _NO_SETTING)

    def suite(self) -> dict[str, Any]:
        suite: dict[str, Any] = {"schema": 1, "name": "flagperf", "title": "From FlagPerf's test_conf.py"}
        suite["preset"] = self._preset
        if len(set(self._seeds.values())) == 1 and len(self._seeds) == len(self.cases):
            suite["seed"] = next(iter(self._seeds.values()))
        if self._open:
            # Its vendors may change what our closed division locks.
            suite["division"] = "open"
        suite["cases"] = self.cases
        return suite

    def _hosts(self) -> list[str]:
        raw = self._cluster.get("HOSTS")
        hosts = [str(host) for host in raw if _is_host(host)] if isinstance(raw, list) else []
        return [host for host in hosts if host not in ("localhost", "127.0.0.1")] if len(hosts) == 1 else hosts

    def _odd_hosts(self) -> list[Any]:
        raw = self._cluster.get("HOSTS")
        return [host for host in raw if not _is_host(host)] if isinstance(raw, list) else []

    def site(self) -> dict[str, Any]:
        hosts = self._hosts()
        site: dict[str, Any] = {"schema": 1, "name": "flagperf", "launcher": "ssh" if hosts else "local"}
        if hosts:
            site["hosts"] = hosts
            if (entrance := _port(self._cluster.get("SSH_PORT"))) is not None:
                site["ssh"] = {"port": entrance}
            if self._images:
                site["container"] = self._container()
            if isinstance(self._test.get("CLEAR_CACHES"), bool):
                site["clear_caches"] = self._test["CLEAR_CACHES"]
            if isinstance(source := self._test.get("PIP_SOURCE"), str) and source:
                site["prepare"] = {"index": source}
        if (port := _port(self._cluster.get("MASTER_PORT"))) is not None:
            site["master_port"] = port
        if (level := self._test.get("FLAGPERF_LOG_LEVEL")) in _LEVELS:
            site["log_level"] = level
        if self._devices:
            site["devices"] = dict(sorted(self._devices.items()))
        return site

    def _container(self) -> dict[str, Any]:
        """As FlagPerf starts its containers, but for the rights that trainmark does not need."""
        container: dict[str, Any] = {"image": self._images[0], "ulimits": dict(_LIMITS)}
        if isinstance(size := self._test.get("SHM_SIZE"), str) and re.fullmatch(r"\d+[bkmgBKMG]?", size):
            container["shm_size"] = size.lower()
        options = self._test.get("ACCE_CONTAINER_OPT")
        try:
            words = shlex.split(options) if isinstance(options, str) else []
        except ValueError:  # an open quote
            words = []
        if words:
            container["options"] = words
        return container


def _is_host(host: Any) -> bool:
    return isinstance(host, str) and is_name(host.replace(":", ""))


def _yaml(content: dict[str, Any], remarks: Sequence[str]) -> tuple[bytes, str]:
    import yaml

    text = yaml.safe_dump(tidy(content), sort_keys=False, allow_unicode=True, width=120)
    # A remark is one line, whatever a foreign file put into it.
    text += "".join("# " + printable(" ".join(remark.split()))[:400] + "\n" for remark in remarks)
    return text.encode(), text


def _port(value: Any) -> int | None:
    """FlagPerf writes ports as texts."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536 else None
