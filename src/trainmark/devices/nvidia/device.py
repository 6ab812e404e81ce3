"""NVIDIA, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Nvidia(Device):
    vendor = "nvidia"
    visible = "CUDA_VISIBLE_DEVICES"
    container_visible = "NVIDIA_VISIBLE_DEVICES"
    container = ("--gpus", "all")
    ulimits = {"memlock": "-1", "stack": "67108864"}
    backends = dict.fromkeys(("pytorch", "mindspore", "tensorflow", "jax", "paddle"), "nccl")
    torch_device = "cuda"
    files = "/dev/nvidia[0-9]*"
    node = "trainmark.devices.nvidia.node"
    proven = ("recording", "library")
