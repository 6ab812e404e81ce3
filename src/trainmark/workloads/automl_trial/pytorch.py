"""A worker of an AutoML experiment: one long-lived process per rank that trains one architecture after another.

`trial_worker.py` is the process, `training.py` trains one architecture, `preparation.py` makes its network and first
weights, `weights_file.py` reads those of a file, `samples.py` gives it batches of images or text, `image_data.py` and
`tfrecords.py` read images. Which architecture comes next is decided in `trainmark.automl`.
"""

from __future__ import annotations

import trainmark_job
from trainmark_job import InputError

# `home`: the folder that workers share; `ledger`: its URL.
DEFAULTS = {
    "slot": 0,
    "experiment": "",
    "start": "[]",
    "home": "",
    "ledger": "",
    "run": "",
    "carry": False,
}


def main() -> None:
    config = trainmark_job.begin("samples", DEFAULTS)
    if not config["params"]["experiment"]:
        raise InputError("this workload is a worker of an experiment: start one with `trainmark automl run`")
    try:
        import optuna  # noqa: F401 - better missed here than later

        import trainmark.automl.experiment.config  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{error}; a worker's Python needs trainmark with its search: pip install 'trainmark[automl]'"
        ) from None

    import trial_worker

    trial_worker.run(config)


if __name__ == "__main__":
    trainmark_job.run(main)
