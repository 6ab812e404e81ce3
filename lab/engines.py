"""Container engines in a lab: docker and podman with a store of their own on every host, and one registry.

The lab's image holds nothing but a skeleton; programs come by mounting the machine's own folders (`MOUNTS`), so that it
is made in a moment and without any network.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.layout import HEAD, Layout
from trainmark.errors import SiteError

if TYPE_CHECKING:
    from lab.lab import Lab

IMAGE = "trainmark-lab/skeleton:1"
MOUNTS = ("/usr",)
_FOLDERS = ("dev", "etc", "home", "proc", "root", "run", "sys", "usr", "var")
_LINKS = ("bin", "lib", "lib64", "sbin")
_CONTAINERD = """\
version = 2
root = "{root}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
 address = "/run/containerd/containerd.sock"
"""
# The limits are those a process without CAP_SYS_RESOURCE may have; runc and cgroupfs work under every kind of cgroup.
_PODMAN = """\
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{root}/podman"
runroot = "/run/containers/storage"
"""
_REGISTRIES = """\
unqualified-search-registries = []
[[registry]]
location = "{registry}"
insecure = true
"""
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'
_SERVE = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {root}/registry}}}}
http: {{addr: "{address}"}}
"""


def write(plan: Layout) -> None:
    """The engines' settings, for each host its own."""
    for host in plan.hosts:
        root = plan.host(host)
        etc = root / "containers"
        etc.mkdir(exist_ok=True)
        (root / "containerd.toml").write_text(_CONTAINERD.format(root=root))
        (etc / "containers.conf").write_text(_PODMAN)
        (etc / "storage.conf").write_text(_STORAGE.format(root=root))
        (etc / "registries.conf").write_text(_REGISTRIES.format(registry=plan.registry))
        (etc / "policy.json").write_text(_POLICY)
    (plan.host(HEAD) / "registry.yml").write_text(_SERVE.format(root=plan.host(HEAD), address=plan.registry))
    (plan.base / "image.tar").write_bytes(skeleton())


def start(lab: Lab) -> None:
    """Engines on all nodes, each with the lab's image; the registry on the head."""
    from lab.slurm import running

    if not running(lab, HEAD, "docker-registry"):
        config = str(lab.layout.host(HEAD) / "registry.yml")
        lab.daemon(HEAD, "docker-registry", "serve", config, log="registry.log")
    for host in lab.nodes:
        start_docker(lab, host, wait=False)
    for host in lab.nodes:
        await_docker(lab, host)
        for engine in ("docker", "podman"):
            _bring_image(lab, host, engine)


def _bring_image(lab: Lab, host: str, engine: str) -> None:
    """Made once per engine and copied: an image that is made again has another id."""
    if lab.on(host, engine, "image", "inspect", IMAGE, check=False).returncode == 0:
        return
    copy = lab.layout.base / f"image-{engine}.tar"
    if copy.exists():
        lab.on(host, engine, "load", "--input", str(copy))
        return
    lab.on(host, engine, "import", str(lab.layout.base / "image.tar"), IMAGE)
    lab.on(host, engine, "save", "--output", str(copy), IMAGE)


def has_docker(lab: Lab, host: str) -> bool:
    return lab.on(host, "docker", "version", check=False).returncode == 0


def start_docker(lab: Lab, host: str, *, wait: bool = True) -> None:
    from lab.lab import wait_for
    from lab.slurm import running

    root, plan = lab.layout.host(host), lab.layout
    if not running(lab, host, "containerd"):
        lab.daemon(host, "containerd", "-c", str(root / "containerd.toml"), log="containerd.log")
        socket = "/run/containerd/containerd.sock"
        wait_for(lambda: lab.on(host, "test", "-S", socket, check=False).returncode == 0, f"containerd on {host}")
    if not running(lab, host, "dockerd"):
        lab.daemon(host, *_dockerd(root, plan, host), log="dockerd.log")
    if wait:
        await_docker(lab, host)


def await_docker(lab: Lab, host: str) -> None:
    from lab.lab import wait_for

    try:
        wait_for(lambda: has_docker(lab, host), f"docker on {host}")
    except SiteError as error:
        log = (lab.layout.host(host) / "log" / "dockerd.log").read_text().splitlines()
        raise SiteError(f"{error}; dockerd says: {' / '.join(log[-3:])}") from None


def stop_docker(lab: Lab, host: str) -> None:
    """The engine goes, as after a crash; containers stay with containerd until it is back."""
    lab.on(host, "pkill", "-KILL", "-x", "dockerd")


def _dockerd(root: Path, plan: Layout, host: str) -> list[str]:
    """No bridge and no packet filter: containers share the host's network, or have none."""
    return [
        "dockerd",
        "--containerd=/run/containerd/containerd.sock",
        f"--data-root={root}/docker",
        "--exec-root=/run/docker",
        "--pidfile=/run/docker.pid",
        "--host=unix:///run/docker.sock",
        "--iptables=false",
        "--ip6tables=false",
        "--bridge=none",
        f"--cgroup-parent=/{plan.cgroup(host)}",
        f"--insecure-registry={plan.registry}",
    ]


def skeleton() -> bytes:
    """An image of folders and links only; the same bytes every time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in _FOLDERS:
            _add(archive, name, tarfile.DIRTYPE, 0o755)
        _add(archive, "tmp", tarfile.DIRTYPE, 0o1777)
        for name in _LINKS:
            _add(archive, name, tarfile.SYMTYPE, 0o777, link=f"usr/{name}")
        _add(archive, "etc/passwd", tarfile.REGTYPE, 0o644, b"root:x:0:0:root:/root:/bin/sh\n")
        _add(archive, "etc/group", tarfile.REGTYPE, 0o644, b"root:x:0:\n")
        _add(archive, "etc/nsswitch.conf", tarfile.REGTYPE, 0o644, b"hosts: files dns\n")
    return out.getvalue()


def _add(archive: tarfile.TarFile, name: str, kind: bytes, mode: int, content: bytes = b"", link: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), link
    archive.addfile(entry, io.BytesIO(content))
