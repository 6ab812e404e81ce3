"""Hyper-parameters of one trial: those inherited, then what Optuna's TPE suggests from how trainings went: the trial's
own, and those of trials with similar networks.

It has no state but the trainings themselves: asked again with the same ones, it suggests the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainmark.automl.experiment.config import WHOLE, Hpo, Range, Training

Values = dict[str, Any]


class Tried(msgspec.Struct, frozen=True):
    """One training of a trial: with which values, and the best accuracy it reached."""

    values: Values
    accuracy: float | None


def inherited(training: Training, parent: Mapping[str, Any]) -> Values:
    """What a trial begins with: the configured values, and its parent's best where there are such."""
    own: Values = {
        "batch": training.batch,
        "lr": training.lr,
        "final_lr": training.final_lr,
        "optimizer": training.optimizer,
        "momentum": training.momentum,
        "weight_decay": training.weight_decay,
        "label_smoothing": training.label_smoothing,
        "dropout": training.dropout,
        "kernel_size": None,
    }
    return {**own, **{name: value for name, value in parent.items() if name in own}}


def wants_more(hpo: Hpo, round_number: int, tried: Sequence[Tried]) -> bool:
    """Whether the trial gets another training."""
    searches = len(tried) - 1
    if not tried or round_number < hpo.from_round or searches >= hpo.searches or not hpo.space:
        return not tried
    best = max((one.accuracy for one in tried[:1] if one.accuracy is not None), default=-1.0)
    idle = 0
    for one in tried[1:]:
        gained = one.accuracy is not None and one.accuracy > best
        best, idle = (one.accuracy or best, 0) if gained else (best, idle + 1)
    return idle < hpo.patience


def suggest(hpo: Hpo, tried: Sequence[Tried], seed: int, elsewhere: Sequence[Sequence[Tried]] = ()) -> Values:
    """Values for the next training, from those so far. `elsewhere`: the trainings of other trials, trial by trial.

    Networks differ in what they reach, so a training counts by how far it is above the mean of its own trial.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed + len(tried), n_startup_trials=1)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = {name: distribution(name, given) for name, given in sorted(hpo.space.items())}
    for trainings in (*elsewhere, tried):
        for values, gain in _gains(trainings):
            known = {name: values.get(name) for name in space}
            if all(_inside(space[name], value) for name, value in known.items()):
                study.add_trial(optuna.trial.create_trial(params=known, distributions=space, value=gain))
    found = study.ask(space).params
    base = dict(tried[0].values) if tried else {}
    return {**base, **{name: _plain(name, value) for name, value in found.items()}}


def _gains(trainings: Sequence[Tried]) -> list[tuple[Values, float]]:
    known = [(one.values, one.accuracy) for one in trainings if one.accuracy is not None]
    mean = sum(accuracy for _, accuracy in known) / len(known) if known else 0.0
    return [(values, accuracy - mean) for values, accuracy in known]


def distribution(name: str, given: Range) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if given.choices is not None:
        return CategoricalDistribution(list(given.choices))
    low, high = given.low or 0.0, given.high or 0.0
    if name in WHOLE:
        return IntDistribution(int(low), int(high), log=given.log)
    return FloatDistribution(low, high, log=given.log)


def _inside(space: Any, value: Any) -> bool:
    try:
        return value is not None and bool(space._contains(space.to_internal_repr(value)))
    except ValueError:
        return False


def _plain(name: str, value: Any) -> Any:
    return int(value) if name in WHOLE else value
