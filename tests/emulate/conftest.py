"""An emulator, and the official clients of what it emulates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainmark.emulate.modelarts.faults import Faults
from trainmark.emulate.modelarts.server import Emulator, Options
from trainmark.emulate.modelarts.training_service import PROJECT


@pytest.fixture
def emulate(tmp_path: Path) -> Iterator[Callable[..., Emulator]]:
    made: list[Emulator] = []

    def make(faults: Faults | None = None, **options: Any) -> Emulator:
        folder = tmp_path / f"emulator{len(made)}"
        options = {"upload_seconds": 0.3, **options}
        emulator = Emulator(folder, 0, Options(faults=faults or Faults(), **options))
        made.append(emulator.__enter__())
        return emulator

    yield make
    for emulator in made:
        emulator.close()


@pytest.fixture
def emulator(emulate: Callable[..., Emulator]) -> Emulator:
    return emulate()


def obs_client(emulator: Emulator, secret: str | None = None, **options: Any) -> Any:
    from obs import ObsClient

    chosen = {"signature": "obs", "is_signature_negotiation": False, "max_retry_count": 0, "timeout": 10, **options}
    return ObsClient(
        access_key_id=emulator.keys.access_key,
        secret_access_key=secret or emulator.keys.secret_key,
        server=emulator.url,
        **chosen,
    )


def modelarts_client(emulator: Emulator, secret: str | None = None) -> Any:
    from huaweicloudsdkcore.auth.credentials import BasicCredentials
    from huaweicloudsdkcore.http.http_config import HttpConfig
    from huaweicloudsdkmodelarts.v1 import ModelArtsClient

    keys = BasicCredentials(emulator.keys.access_key, secret or emulator.keys.secret_key, PROJECT)
    built = ModelArtsClient.new_builder().with_http_config(HttpConfig(timeout=(3, 10), retry_times=0))
    return built.with_credentials(keys).with_endpoint(emulator.url).build()


def wait_for_phase(client: Any, job: str, *phases: str) -> Any:
    from huaweicloudsdkmodelarts.v1 import ShowTrainingJobDetailsRequest

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = client.show_training_job_details(ShowTrainingJobDetailsRequest(training_job_id=job)).status
        if status.phase in phases:
            return status
        time.sleep(0.1)
    raise AssertionError(f"{job} is {status.phase}")
