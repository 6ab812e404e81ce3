"""Ascend, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Ascend(Device):
    vendor = "ascend"
    visible = "ASCEND_RT_VISIBLE_DEVICES"
    # Read by Ascend Docker Runtime when it makes a container.
    container_visible = "ASCEND_VISIBLE_DEVICES"
    container = (
        "--device=/dev/davinci{n}",
        "--device=/dev/davinci_manager",
        "--device=/dev/devmm_svm",
        "--device=/dev/hisi_hdc",
        "-v",
        "/usr/local/Ascend/driver:/usr/local/Ascend/driver:ro",
        "-v",
        "/usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro",
    )
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "hccl", "mindspore": "hccl"}
    torch_device = "npu"
    torch_module = "torch_npu"
    # Scripts of the toolkit; what they set is what ranks need to find its libraries.
    setup = ("/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh")
    files = "/dev/davinci[0-9]*"
    node = "trainmark.devices.ascend.node"
    proven = ("recording", "library")
