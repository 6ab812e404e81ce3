"""AAH's config.yml, as people have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.automl.aah import config as aah
from trainmark.automl.experiment.reading import load, to_yaml
from trainmark.cli.main import main
from trainmark.errors import UserError

SEED = Path(__file__).parent / "aah" / "seed_config.yml"


def test_the_listing_of_the_document_is_read_as_it_was_meant() -> None:
    experiment, notes = aah.read(SEED)
    training = experiment.training
    assert (experiment.workers, experiment.max_trials, experiment.seconds) == (1, 6000, 24 * 3600)
    assert (training.batch, training.epochs) == (448, [15, 30, 45, 60])
    assert (training.lr, training.final_lr, training.dtype) == (0.2, 1e-5, "fp16")
    assert experiment.image is not None
    assert (experiment.image.size, experiment.image.channels, experiment.image.classes) == (224, 3, 1000)
    assert (experiment.slot.devices, experiment.visible_devices, experiment.threads) == (8, "0,1,2,3,4,5,6,7", 2)
    assert experiment.data.endswith("train_tfrecord/") and str(experiment.val_data).endswith("validation_tfrecord/")
    assert (experiment.rules, experiment.hpo.searches, experiment.hpo.from_round) == ("seed", 30, 3)
    # Each kind of thing that was cleaned is said once, with its lines: 12 marks, 2 escapes, 9 lines with tabs.
    counts = {word: [note.count(",") + 1 for note in notes if word in note] for word in ("marks", "Markdown", "tabs")}
    assert counts == {"marks": [12], "Markdown": [2], "tabs": [9]}
    assert any("not run" in note for note in notes) and any("--ip" in note for note in notes)


def test_what_aiperf_s_branches_have_besides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables, an object store for logs, a stub that submits, and CIFAR-10's script, which names no data."""
    monkeypatch.setenv("DEVICES_PER_NODE", "4")
    file = tmp_path / "config.yml"
    head, _, rest = SEED.read_text().partition("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")
    npu = "NPU_NUM=${DEVICES_PER_NODE} OBSHOME=obs://${NOWHERE}/runlog /share/submitter.py"
    file.write_text(f"{head}{npu}{rest}")
    experiment, notes = aah.read(file)
    assert (experiment.device, experiment.slot.devices) == ("ascend", 4)
    assert sum("OBSHOME" in note or "submitter" in note for note in notes) == 2
    file.write_text(f"{head}{npu}{rest}".replace("DEVICES_PER_NODE", "NOWHERE"))
    with pytest.raises(UserError, match="the variable NOWHERE is not set here"):
        aah.read(file)
    command = "CUDA_VISIBLE_DEVICES=0 python3 cifar10_keras.py"
    file.write_text(
        f"trialConcurrency: 1\ntuner: {{builtinTunerName: NetworkMorphism}}\ntrial: {{command: {command}}}\n"
    )
    experiment, _ = aah.read(file)
    assert experiment.data == "cifar-10" and experiment.image is not None and experiment.image.classes == 10


def test_what_show_prints_is_an_experiment_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["automl", "run", str(SEED), "--show"]) == 0
    shown = tmp_path / "shown.yaml"
    shown.write_text(capsys.readouterr().out)
    assert load(shown) == aah.read(SEED)[0]
    assert to_yaml(load(shown)) == shown.read_text()


def test_rules_of_the_release_bring_its_recipe() -> None:
    experiment = aah.with_rules(aah.read(SEED)[0], "release")
    assert (experiment.rules, experiment.hpo.searches) == ("release", 1)
    assert experiment.training.early_stop.rule == "aiperf"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("--slave 1", "--slave 3", "--slave 3 is not trialConcurrency"),
        ("--ip 127.0.0.1", "--colour red", "--colour: cannot be mapped"),
        ("srun -N 1", "srun --partition=compute -N 1", "put `slurm: {partition"),
        ("srun -N 1", "srun --exclusive=user -N 1", "srun --exclusive: cannot be mapped"),
        ("CUDA_VISIBLE_DEVICES=0,1", "LD_PRELOAD=x CUDA_VISIBLE_DEVICES=0,1", "LD_PRELOAD: cannot be mapped"),
        ("builtinTunerName: NetworkMorphism", "builtinTunerName: TPE", "allowed is `NetworkMorphism`"),
        ("optimize_mode: maximize", "optimize_mode: minimize", "optimize_mode"),
        ("trainingServicePlatform: local", "trainingServicePlatform: pai", "trainingServicePlatform"),
        ("authorName", "authorNom", "authorNom: cannot be mapped (did you mean `authorName`?)"),
        ("--train_data_dir /gdata", "--val_data_dir /gdata", "--train_data_dir is missing"),
        ("python3 imagenet_tfkeras_slurm_hpo.py", "bash -c 'rm -rf /'", "expected `python3 SCRIPT.py"),
        ("maxExecDuration: 24h", "maxExecDuration: soon", "maxExecDuration"),
    ],
)
def test_what_cannot_be_mapped_is_an_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = SEED.read_text()
    assert old in text
    file = tmp_path / "config.yml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=None) as failed:
        aah.read(file)
    assert said in str(failed.value)
