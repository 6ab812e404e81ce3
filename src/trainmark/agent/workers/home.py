"""The home of a job's command: a folder of its own with what the Apulis platform would have put there.

`/home/NAME/ib_config` is there, too, seen by the processes of the job alone: in a mount namespace of their own, or in
their container.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, MutableMapping

from trainmark.agent import linux, private
from trainmark.agent.files import write_file
from trainmark.agent.node_plan import HANDED

BIN = "bin"
HOST_FILE, SEED_HOST_FILE = "hostfile", "ib_config"
# In the node's folder, where the site has addresses of devices.
RANK_TABLES = ("hccl.json", "rank_table.json")
# The variable that names the folder of the secrets, and the folder of the home that shows mounts.
SECRETS, MOUNTS = "TRAINMARK_SECRETS", "mnt"
_HOMES = "/home"
# Where there is no sudo: the job's account is all there is, so its options are passed over.
_SUDO = """\
#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --) shift; break ;;
    -u|-g|-h|-p|-C|-r|-t|-T|-U|-D|-R) shift 2 ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
  esac
done
exec "$@"
"""


def prepare(
    settings: dict[str, Any], index: int, hosts: list[str], folder: str, spool: str, env: MutableMapping[str, str]
) -> str:
    """Makes it and completes the environment; returns the folder that the command starts in."""
    home = env["HOME"]
    private.keep_folder(spool)
    os.makedirs(os.path.join(spool, BIN), 0o700, exist_ok=True)
    os.makedirs(os.path.join(home, "tensorboard", settings["job"], "logs"), 0o700, exist_ok=True)
    env["PATH"] = os.path.join(spool, BIN) + os.pathsep + env.get("PATH", os.defpath)
    if shutil.which("sudo", path=env["PATH"]) is None:
        write_file(os.path.join(spool, BIN, "sudo"), _SUDO)
        os.chmod(os.path.join(spool, BIN, "sudo"), 0o700)
    for name in RANK_TABLES:
        if os.path.exists(os.path.join(folder, name)):
            with open(os.path.join(folder, name)) as file:
                _replace(os.path.join(home, name), file.read())
    for name, place in settings["mounts"].items():
        _link(place, os.path.join(home, MOUNTS, name))
    if not hosts:
        return home
    slots = int(settings["slots"])
    _replace(os.path.join(home, HOST_FILE), _host_file(hosts, slots))
    fast = [env.get("DLWS_SD_worker%d_IB_IP" % number) or host for number, host in enumerate(hosts)]
    _replace(os.path.join(home, SEED_HOST_FILE), _host_file(fast, slots))
    try:
        _show(settings["user"], home, bool(settings["contained"]))
    except OSError as error:
        text = "trainmark: %s/%s/%s cannot be had here (%s); use ~/%s\n"
        sys.stderr.write(text % (_HOMES, settings["user"], SEED_HOST_FILE, error, SEED_HOST_FILE))
        sys.stderr.flush()
    return _own_folder(home, index, slots)


def _own_folder(home: str, index: int, slots: int) -> str:
    """Of this worker, with one for each of its ranks: no two are the same, even where all hosts share the home."""
    own = os.path.join(home, "worker-%d" % index)
    for number in range(index * slots, (index + 1) * slots):
        os.makedirs(os.path.join(own, "rank%d" % number), 0o700, exist_ok=True)
    return own


def _host_file(hosts: list[str], slots: int) -> str:
    return "".join("%s slots=%d\n" % (host, slots) for host in hosts)


def _replace(path: str, text: str) -> None:
    """Several workers may share a home; each writes the same."""
    draft = "%s.%s.%d" % (path, os.uname().nodename, os.getpid())
    write_file(draft, text)
    os.replace(draft, path)


def _link(there: str, here: str) -> None:
    """Several workers may share a home, and one that is started again finds its own."""
    os.makedirs(os.path.dirname(here), 0o700, exist_ok=True)
    try:
        os.symlink(there, here)
    except FileExistsError:
        pass


def clear(spool: str, folder: str) -> None:
    """Keys and programs end with the worker, and so does what the node was handed for it."""
    for place in (spool, os.path.join(folder, HANDED)):
        shutil.rmtree(place, ignore_errors=True)


def _show(user: str, home: str, contained: bool) -> None:
    """Makes `/home/USER` show the job's home, or its host file where there is a home already. OSError where that cannot
    be done without others seeing it."""
    place = os.path.join(_HOMES, user)
    if os.path.realpath(place) == os.path.realpath(home):
        return
    if linux.Proc().capable(linux.CAP_SYS_ADMIN):
        linux.unshare(linux.CLONE_NEWNS)
    elif contained and not os.path.lexists(place):
        os.makedirs(_HOMES, exist_ok=True)
        os.symlink(home, place)  # the container's own file system, which ends with it
        return
    else:
        linux.own_user_namespace(linux.CLONE_NEWNS)
    linux.mount("none", "/", "none", linux.MS_REC | linux.MS_SLAVE)
    if os.path.isdir(place):
        _cover(place, {SEED_HOST_FILE: os.path.join(home, SEED_HOST_FILE)})
    else:
        _cover(_HOMES, {user: home})


def _cover(folder: str, more: dict[str, str]) -> None:
    """The folder shows what it has and, under other names, what is elsewhere. Nothing is written into it."""
    before = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV)
        try:
            names = [name for name in os.listdir(before) if name not in more]
            shown = [("/proc/self/fd/%d/%s" % (before, name), name) for name in names]
            for there, name in shown + [(source, name) for name, source in more.items()]:
                _bind(there, os.path.join(folder, name))
        except OSError:
            linux.unmount(folder)
            raise
    finally:
        os.close(before)


def _bind(there: str, here: str) -> None:
    if os.path.islink(there):
        os.symlink(os.readlink(there), here)
        return
    if os.path.isdir(there):
        os.mkdir(here)
    elif os.path.isfile(there):
        os.close(os.open(here, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    else:
        return
    linux.mount(there, here, "none", linux.MS_BIND | linux.MS_REC)
