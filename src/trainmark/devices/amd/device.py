"""AMD, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Amd(Device):
    vendor = "amd"
    visible = "HIP_VISIBLE_DEVICES"
    container = (
        "--device=/dev/kfd",
        "--device=/dev/dri",
        "--group-add",
        "video",
        "--security-opt",
        "seccomp=unconfined",
    )
    ulimits = {"memlock": "-1"}
    # RCCL answers to the name of NCCL.
    backends = dict.fromkeys(("pytorch", "tensorflow", "jax"), "nccl")
    torch_device = "cuda"
    node = "trainmark.devices.amd.node"
    proven = ("recording",)
