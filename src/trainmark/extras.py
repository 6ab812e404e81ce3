"""Packages that only some verbs need: extras of trainmark, named in one way when one is missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from trainmark.errors import UserError

# extra → what it installs: the name of the module that is imported, and of the package that holds it.
EXTRAS: dict[str, dict[str, str]] = {
    "torch": {"torch": "torch", "PIL": "pillow"},
    "automl": {
        "optuna": "optuna",
        "grpc": "grpcio",
        "google.protobuf": "protobuf",
        "safetensors": "safetensors",
        "h5py": "h5py",
    },
    "hub": {"transformers": "transformers"},
    "mpi": {"mpi4py": "mpi4py"},
    "interop": {"zstandard": "zstandard"},
    "parquet": {"pyarrow": "pyarrow"},
    "tensorboard": {"tensorboardX": "tensorboardX"},
    "mlflow": {"mlflow": "mlflow-skinny"},
    "mlperf": {"mlperf_logging": "mlperf-logging"},
    "trust": {"cryptography": "cryptography", "zstandard": "zstandard"},
    "sigstore": {"sigstore": "sigstore"},
    "modelarts": {"huaweicloudsdkmodelarts": "huaweicloudsdkmodelarts", "obs": "esdk-obs-python"},
    "frames": {"pandas": "pandas", "polars": "polars"},
    "web": {
        "litestar": "litestar",
        "uvicorn": "uvicorn",
        "sqlalchemy": "SQLAlchemy",
        "alembic": "alembic",
        "argon2": "argon2-cffi",
        "psycopg": "psycopg[binary]",
        "jinja2": "jinja2",
        "cryptography": "cryptography",
        "authlib": "authlib",
        "joserfc": "joserfc",
        "httpx": "httpx",
        "httpcore": "httpcore",
        "websockets": "websockets",
    },
    "endpoints": {"tensorboard": "tensorboard", "jupyterlab": "jupyterlab"},
}


def extra_of(module: str) -> str | None:
    """The extra that brings a module; None where no extra does."""
    names = (module, module.partition(".")[0])
    return next((extra for extra, modules in EXTRAS.items() if any(name in modules for name in names)), None)


def command(module: str) -> str:
    """The command that adds a module to the Python it is typed in."""
    extra = extra_of(module)
    return f"pip install 'trainmark[{extra}]'" if extra else f"pip install {module}"


def present(module: str) -> bool:
    """Whether it could be imported here; nothing is imported but the package that holds it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def need(extra: str, what: str, *modules: str) -> None:
    """UserError, before anything is started, when `what` cannot be done because the extra is not installed. `modules`:
    those of the extra that it cannot do without (none named: all)."""
    packages = EXTRAS[extra]
    missing = [packages[module] for module in modules or packages if not present(module)]
    if missing:
        raise UserError(
            f"{what} needs {', '.join(missing)}, not installed here: `pip install 'trainmark[{extra}]'` adds it"
        )


def load(module: str, what: str) -> Any:
    """The module, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"{what} needs {module}, not installed here: `{command(module)}` adds it") from None
