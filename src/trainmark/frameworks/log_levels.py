"""`log_level:` in the words of each library. Data: a row is a variable, whom it is for, and its value at each level.

Sources: MindSpore and CANN (GLOG_v, ASCEND_GLOBAL_LOG_LEVEL: 0 debug … 3 error), NCCL's and RCCL's user guides,
TensorFlow and PyTorch (C++ logging), Horovod, JAX; PaddlePaddle counts GLOG_v the other way round: more says more.
"""

from __future__ import annotations

LEVELS = ("debug", "info", "warning", "error")

# Everyone where no framework is named. None: the library has no word for it, and is left at its own default.
_TABLE: tuple[tuple[str, tuple[str, ...], tuple[str | None, str | None, str | None, str | None]], ...] = (
    ("GLOG_v", ("mindspore",), ("0", "1", "2", "3")),
    ("GLOG_v", ("paddle", "paddlepaddle"), ("4", "1", "0", "0")),
    ("GLOG_minloglevel", ("paddle", "paddlepaddle"), ("0", "0", "1", "2")),
    ("ASCEND_GLOBAL_LOG_LEVEL", (), ("0", "1", "2", "3")),
    ("ASCEND_GLOBAL_EVENT_ENABLE", (), ("1", "1", "0", "0")),
    ("NCCL_DEBUG", (), ("TRACE", "INFO", "WARN", None)),
    ("TF_CPP_MIN_LOG_LEVEL", (), ("0", "0", "1", "2")),
    ("TORCH_CPP_LOG_LEVEL", (), ("INFO", "INFO", "WARNING", "ERROR")),
    ("TORCH_DISTRIBUTED_DEBUG", ("pytorch",), ("DETAIL", "INFO", "OFF", "OFF")),
    ("HOROVOD_LOG_LEVEL", ("horovod",), ("debug", "info", "warning", "error")),
    ("JAX_LOGGING_LEVEL", ("jax",), ("DEBUG", "INFO", "WARNING", "ERROR")),
)


def variables(level: str | None, framework: str) -> dict[str, str]:
    """What a case at this level has in its environment; nothing where no level was asked for."""
    if level is None:
        return {}
    column = LEVELS.index(level)
    found = {}
    for name, whom, values in _TABLE:
        value = values[column]
        if value is not None and (not whom or framework in whom):
            found[name] = value
    return found
