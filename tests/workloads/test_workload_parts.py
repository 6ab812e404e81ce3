"""What the reference programs are made of: readers that refuse broken data, shards, checkpoints, models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trainmark_checkpoint
import trainmark_images
import trainmark_job
import trainmark_torch
from PIL import Image
from torch.overrides import TorchFunctionMode
from trainmark_checkpoint import Parts
from trainmark_job import InputError
from trainmark_loop import Shards
from trainmark_torch import Ranks
from trainmark_torch_images import Feed

from trainmark.spec import workload

from .conftest import RANK_PATH, load

torch.set_num_threads(1)
CPU = torch.device("cpu")
ALONE = Ranks(CPU, 0, 1, 0)
TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


# -- IDX


def open_digits(folder: Path) -> Any:
    return trainmark_images.open_idx(str(folder), 10, 0.5, 0.5)


def test_idx_files_are_read_packed_and_plain(own_digits):
    train, test = open_digits(own_digits)
    images, labels = train.batch(np.array([3, 1]), None)
    assert (len(train), len(test)) == (40, 20)
    assert images.shape == (2, 1, 28, 28)
    # Each class has its bright row.
    assert all(images[n, 0, int(labels[n]) * 2 + 4].min() == 250 for n in range(2))


def cut_packed(folder: Path, write_idx: Any) -> None:
    path = folder / TRAIN_IMAGES
    path.write_bytes(path.read_bytes()[:-100])


def cut_plain(folder: Path, write_idx: Any) -> None:
    path = folder / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])


def cut_head(folder: Path, write_idx: Any) -> None:
    (folder / "t10k-images-idx3-ubyte").write_bytes(bytes((0, 0, 8, 3, 0, 0)))


def no_gzip(folder: Path, write_idx: Any) -> None:
    (folder / TRAIN_IMAGES).write_bytes(b"<html>not found</html>")


def labels_for_images(folder: Path, write_idx: Any) -> None:
    (folder / TRAIN_LABELS).replace(folder / TRAIN_IMAGES)
    write_idx(folder / TRAIN_LABELS, np.zeros(40))


def strange_label(folder: Path, write_idx: Any) -> None:
    write_idx(folder / TRAIN_LABELS, np.full(40, 10))


def too_few_labels(folder: Path, write_idx: Any) -> None:
    write_idx(folder / TRAIN_LABELS, np.zeros(39))


def nothing_inside(folder: Path, write_idx: Any) -> None:
    write_idx(folder / TRAIN_LABELS, np.zeros(0))
    write_idx(folder / TRAIN_IMAGES, np.zeros((0, 28, 28)))


def missing(folder: Path, write_idx: Any) -> None:
    (folder / TRAIN_LABELS).unlink()


@pytest.mark.parametrize(
    ("spoil", "file", "reason"),
    [
        (cut_packed, TRAIN_IMAGES, "cannot be read"),
        (cut_plain, "t10k-images-idx3-ubyte", "cut short"),
        (cut_head, "t10k-images-idx3-ubyte", "cut short"),
        (no_gzip, TRAIN_IMAGES, "cannot be read"),
        (labels_for_images, TRAIN_IMAGES, "begins with 00000801, wanted is 00000803"),
        (strange_label, TRAIN_LABELS, "label 10; allowed are 0 to 9"),
        (too_few_labels, TRAIN_LABELS, "39 labels for 40 images"),
        (nothing_inside, TRAIN_LABELS, "is empty"),
        (missing, "train-labels-idx1-ubyte", "lacks"),
    ],
)
def test_a_spoilt_idx_file_is_named(own_digits, write_idx, spoil, file, reason):
    spoil(own_digits, write_idx)
    with pytest.raises(InputError) as caught:
        open_digits(own_digits)
    text = str(caught.value)
    assert str(own_digits) in text
    assert file in text
    assert reason in text
    assert "\n" not in text


# -- pictures


def picture(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (60, 40), (shade, shade, shade)).save(path)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for part in ("train", "val"):
        for number, name in enumerate(("cat", "dog")):
            for index in range(3):
                picture(tmp_path / part / name / f"{index}.jpg", 200 * number)
    return tmp_path


def test_pictures_are_found_by_class(pictures):
    train, test, kind = trainmark_images.open_pictures(str(pictures), 32, 1000)
    assert (kind, len(train), len(test)) == ("folder", 6, 6)
    images, labels = train.batch(np.arange(6), np.random.default_rng(0))
    assert images.shape == (6, 3, 32, 32)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.mean(axis=(1, 2, 3)).round().tolist() == [0, 0, 0, 200, 200, 200]


def test_a_class_missing_in_the_validation_images_shifts_no_label(pictures):
    for file in (pictures / "val" / "cat").iterdir():
        file.unlink()
    (pictures / "val" / "cat").rmdir()
    _, test, _ = trainmark_images.open_pictures(str(pictures), 32, 1000)
    assert test.batch(np.arange(3), None)[1].tolist() == [1, 1, 1]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_picture_is_named(pictures, workers):
    broken = pictures / "train" / "dog" / "1.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    train, _, _ = trainmark_images.open_pictures(str(pictures), 32, 1000)
    feed = Feed(train, ALONE, 32, False)
    shards = Shards(len(train), 6, ALONE, 0)
    with pytest.raises(InputError) as caught:
        next(feed.training(shards, range(1), 0, workers))
    assert f"{broken} is not a readable picture" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folders_that_hold_nothing_are_named(tmp_path, pictures):
    with pytest.raises(InputError, match="does not exist"):
        trainmark_images.open_pictures(str(tmp_path / "nowhere"), 32, 10)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no class folders.*data_batch_1\.bin"):
        trainmark_images.open_pictures(str(tmp_path / "empty"), 32, 10)
    (tmp_path / "empty" / "cat").mkdir()
    with pytest.raises(InputError, match="holds no pictures"):
        trainmark_images.open_pictures(str(tmp_path / "empty"), 32, 10)
    with pytest.raises(InputError, match="2 classes; the model has 1: set classes=2"):
        trainmark_images.open_pictures(str(pictures), 32, 1)
    picture(pictures / "val" / "cow" / "1.png", 0)
    with pytest.raises(InputError, match=r"cow is a class that .*train does not have"):
        trainmark_images.open_pictures(str(pictures), 32, 10)


def cifar(folder: Path, label: int = 3) -> Path:
    record = bytes((label,)) + bytes(range(256)) * 12
    for name in (*trainmark_images.CIFAR_TRAIN, trainmark_images.CIFAR_TEST):
        (folder / name).write_bytes(record * 2)
    return folder


def test_cifar_is_read_and_scaled_to_the_model(tmp_path):
    train, test, kind = trainmark_images.open_pictures(str(cifar(tmp_path)), 48, 10)
    assert (kind, len(train), len(test)) == ("cifar10", 10, 2)
    assert train.batch(np.arange(1), None)[0][0, 0, 0, :4].tolist() == [0, 1, 2, 3]
    images, labels = next(Feed(train, ALONE, 48, True).evaluation(10, 0))
    assert images.shape == (10, 3, 48, 48)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert labels.tolist() == [3] * 10


def test_spoilt_cifar_is_named(tmp_path):
    cifar(tmp_path, label=10)
    with pytest.raises(InputError, match=r"data_batch_1\.bin has the label 10"):
        trainmark_images.open_pictures(str(tmp_path), 32, 1000)
    cifar(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(b"short")
    with pytest.raises(InputError, match=r"test_batch\.bin is cut short"):
        trainmark_images.open_pictures(str(tmp_path), 32, 1000)
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(InputError, match=r"test_batch\.bin cannot be read: No such file"):
        trainmark_images.open_pictures(str(tmp_path), 32, 1000)


# -- shards


def test_ranks_share_an_epoch_without_overlap_and_in_equal_steps():
    three = [Ranks(CPU, rank, 3, rank) for rank in range(3)]
    shards = [Shards(100, 8, ranks, seed=1) for ranks in three]
    steps = {shard.steps_per_epoch for shard in shards}
    assert steps == {4}
    seen = np.concatenate([shard.indices(step) for shard in shards for step in range(4)])
    assert len(set(seen.tolist())) == 96
    second = np.concatenate([shard.indices(step) for shard in shards for step in range(4, 8)])
    assert seen.tolist() != second.tolist()
    assert shards[0].indices(0).tolist() == seen[:8].tolist()


def test_every_image_is_evaluated_once(own_digits):
    _, test = open_digits(own_digits)
    three = [Ranks(CPU, rank, 3, rank) for rank in range(3)]
    feeds = [Feed(test, ranks, 28, False) for ranks in three]
    assert sum(len(labels) for feed in feeds for _, labels in feed.evaluation(8, workers=feed is feeds[0])) == 20


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(InputError, match="10 images are fewer than one step of 1 x 16: set a smaller batch"):
        Shards(10, 16, ALONE, 0)


# -- checkpoints


def net(outputs: int = 3) -> tuple[Any, Any]:
    model = torch.nn.Linear(2, outputs)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def test_the_newest_checkpoints_are_kept_and_found(tmp_path):
    model, optimizer = net()
    for step in (5, 10, 15):
        torch.nn.init.constant_(model.weight, float(step))
        trainmark_checkpoint.save(tmp_path, step, Parts(model, optimizer), ALONE)
    (tmp_path / "step-000000099.half").write_bytes(b"killed while writing")
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["step-000000010.pt", "step-000000015.pt"]
    other = Parts(*net())
    assert trainmark_checkpoint.resume(tmp_path, other, ALONE) == 15
    assert other.model.weight[0, 0] == 15.0
    assert trainmark_checkpoint.resume(tmp_path / "none", other, ALONE) == 0


def test_weights_of_another_model_are_refused(tmp_path):
    model, optimizer = net(outputs=4)
    trainmark_checkpoint.save(tmp_path, 1, Parts(model, optimizer), ALONE)
    path = str(tmp_path / "step-000000001.pt")
    with pytest.raises(InputError, match=r"another model: `weight` is \(4, 2\), wanted is \(3, 2\)"):
        trainmark_checkpoint.start_from(path, Parts(*net()), ALONE)
    with pytest.raises(InputError, match=r"another model: it lacks `0\.bias`"):
        trainmark_checkpoint.start_from(path, Parts(torch.nn.Sequential(torch.nn.Linear(2, 4)), optimizer), ALONE)


def test_plain_weights_can_start_a_run_and_broken_ones_are_named(tmp_path):
    model, _ = net()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = Parts(*net())
    trainmark_checkpoint.start_from(str(tmp_path / "weights.pt"), other, ALONE)
    assert torch.equal(other.model.weight, model.weight)
    (tmp_path / "broken.pt").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"broken\.pt cannot be read"):
        trainmark_checkpoint.start_from(str(tmp_path / "broken.pt"), other, ALONE)
    with pytest.raises(InputError, match=r"absent\.pt: No such file"):
        trainmark_checkpoint.start_from(str(tmp_path / "absent.pt"), other, ALONE)


# -- number formats and hashes


@pytest.mark.parametrize(("dtype", "flag"), [("bf16", "avx512_bf16"), ("bf16", "amx_bf16"), ("fp16", "avx512_fp16")])
def test_a_format_the_cpu_would_emulate_is_refused(monkeypatch, dtype, flag):
    monkeypatch.setattr(trainmark_job, "cpu_flags", lambda: {"avx2"})
    with pytest.raises(InputError, match=f"this CPU has no {dtype} units .*set dtype=fp32"):
        trainmark_torch.Precision(dtype, CPU)
    monkeypatch.setattr(trainmark_job, "cpu_flags", lambda: {flag})
    trainmark_torch.Precision(dtype, CPU)
    with pytest.raises(InputError, match="tf32 is a format of NVIDIA"):
        trainmark_torch.Precision("tf32", CPU)


def test_fp16_steps_are_clipped_and_skipped_when_gradients_overflow(monkeypatch, tmp_path):
    monkeypatch.setattr(trainmark_job, "cpu_flags", lambda: {"avx512_fp16"})
    precision = trainmark_torch.Precision("fp16", CPU)
    model, optimizer = net()
    parts = Parts(model, optimizer, precision.scaler)
    before = model.weight.detach().clone()
    precision.backward(model(torch.full((1, 2), 100.0)).sum())
    precision.update(optimizer, clip=0.5)
    change = torch.cat([(model.weight - before).flatten(), model.bias.grad * -0.1])
    assert change.norm().item() == pytest.approx(0.1 * 0.5, rel=1e-3), "the norm of what is not scaled"
    before = model.weight.detach().clone()
    optimizer.zero_grad()
    precision.backward(model(torch.full((1, 2), 3e38)).sum())
    precision.update(optimizer, clip=0.5)
    assert torch.equal(model.weight, before)
    scale = precision.scaler.get_scale()
    assert scale == 65536 / 2
    trainmark_checkpoint.save(tmp_path, 2, parts, ALONE)
    again = Parts(*net(), trainmark_torch.Precision("fp16", CPU).scaler)
    assert trainmark_checkpoint.resume(tmp_path, again, ALONE) == 2
    assert again.scaler.get_scale() == scale


def test_the_first_gradients_are_told_without_the_scale_of_fp16(monkeypatch):
    monkeypatch.setattr(trainmark_job, "cpu_flags", lambda: {"avx512_fp16"})
    precision = trainmark_torch.Precision("fp16", CPU)
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    precision.backward((3.0 * weight).sum())
    assert precision.unscaled(float(weight.grad.norm())) == pytest.approx(3.0)
    assert trainmark_torch.Precision("fp32", CPU).unscaled(3.0) == 3.0


@pytest.mark.parametrize("old", [False, True])
def test_bf16_is_refused_where_a_device_has_no_units(monkeypatch, old):
    class Plugin:
        units = False

        @staticmethod
        def is_bf16_supported(*, including_emulation: bool = True) -> bool:
            return Plugin.units or including_emulation

    if old:  # as plug-ins have it that do not know the argument
        Plugin.is_bf16_supported = staticmethod(lambda: Plugin.units)
    monkeypatch.setattr(torch, "npu", Plugin, raising=False)
    device = type("Device", (), {"type": "npu"})()
    with pytest.raises(InputError, match="no bf16 units"):
        trainmark_torch.Precision("bf16", device)
    Plugin.units = True
    assert trainmark_torch.Precision("bf16", device).stored is torch.bfloat16


def test_a_model_that_cannot_fit_is_refused_before_it_is_built(monkeypatch):
    built = []

    def build():
        built.append(torch.empty(0).device.type)
        return torch.nn.Linear(1_000_000, 10_000, bias=False)

    monkeypatch.setattr(trainmark_torch, "_room", lambda ranks: 80 * 2.0**30)
    two = Ranks(CPU, 0, 2, 0)
    with pytest.raises(InputError, match=r"10.0 billion parameters need about 149 GiB .* a rank has 80 GiB .*=fsdp"):
        trainmark_torch.check_memory(build, two)
    trainmark_torch.check_memory(build, two, "fsdp")
    with pytest.raises(InputError, match="need about 112 GiB"):  # an optimizer that keeps one number of each weight
        trainmark_torch.check_memory(build, two, moments=1)
    assert built == ["meta", "meta", "meta"]


def test_nothing_follows_the_error_that_ended_a_program():
    code = (
        "import atexit, trainmark_job\natexit.register(print, 'noise', flush=True)\n"
        "def main():\n    raise RuntimeError('the reason')\ntrainmark_job.run(main)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, RANK_PATH))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1] == "RuntimeError: the reason"
    said = subprocess.run(
        [sys.executable, "-c", "import trainmark_job\ntrainmark_job.run(lambda: exit('error: two words'))"],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (said.returncode, said.stderr) == (1, "error: two words\n")


def test_the_measured_peak_converts_nothing_inside_its_time(monkeypatch):
    monkeypatch.setattr(trainmark_job, "cpu_flags", lambda: {"amx_bf16"})
    monkeypatch.setattr(trainmark_torch, "MATMUL_SIZE", {"cpu": 32})
    monkeypatch.setattr(trainmark_torch, "MATMUL_SECONDS", 0.0)
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if "matmul" in function.__name__:
                seen.append((args[0].dtype, torch.is_autocast_enabled("cpu")))
            return function(*args, **(kwargs or {}))

    with Watch():
        speed = trainmark_torch.matmul_flops(trainmark_torch.Precision("bf16", CPU), Ranks(CPU, 0, 1, 0))
    assert speed > 0, "measured once at least, however little time there is"
    assert set(seen) == {(torch.bfloat16, False)}


def test_the_hash_of_weights_ignores_memory_layout_and_sees_values():
    model = torch.nn.Conv2d(3, 4, 3)
    before = trainmark_torch.weights_sha256(model)
    assert trainmark_torch.weights_sha256(model.to(memory_format=torch.channels_last)) == before
    with torch.no_grad():
        model.bias[0] += 1e-6
    assert trainmark_torch.weights_sha256(model) != before


# -- models and workload.yaml


@pytest.mark.parametrize(
    ("name", "model", "classes", "shape"),
    [("mnist", "SmallNet", 10, (1, 28, 28)), ("resnet50", "ResNet50", 1000, (3, 224, 224))],
)
def test_declared_flops_are_the_models(name, model, classes, shape):
    build = getattr(load(f"{name}/model"), model)
    declared = workload.read(workload.BUILT_IN / name).workload.flops_per_sample
    assert trainmark_torch.training_flops(lambda: build(classes), lambda: (torch.empty(2, *shape),)) == declared


def test_resnet50_has_the_known_number_of_parameters_and_torchvisions_names():
    with torch.device("meta"):
        model = load("resnet50/model").ResNet50(1000)
    assert trainmark_torch.parameter_count(model) == 25_557_032
    names = set(model.state_dict())
    assert {"layer1.0.downsample.0.weight", "layer4.2.bn3.running_var", "fc.bias"} <= names
    assert model.layer2[0].conv2.stride == (2, 2), "v1.5 strides in the 3 x 3 convolution"


@pytest.mark.parametrize("name", ["mnist", "resnet50", "gpt2", "llama", "bert"])
def test_a_program_by_itself_uses_the_declared_defaults(name):
    declared = workload.read(workload.BUILT_IN / name).workload.parameters
    assert json.loads(json.dumps(load(f"{name}/pytorch").PARAMETERS)) == {
        parameter: details.default for parameter, details in declared.items()
    }


@pytest.mark.parametrize("name", ["noop", "mnist", "resnet50", "gpt2", "llama", "bert"])
def test_every_workload_has_the_three_presets_and_helps(name):
    declared = workload.read(workload.BUILT_IN / name).workload
    assert list(declared.presets)[:3] == ["smoke", "quick", "full"]
    assert all(parameter.help for parameter in declared.parameters.values())


def test_tables_that_cannot_fit_are_refused_before_they_are_made(cli):
    report = cli("run", "dlrm:pytorch:cpu:1:1:1", "--preset", "smoke", "--set", "rows=2000000000", code=1).stdout
    assert "416.0 billion parameters need about 4649 GiB" in " ".join(report.split())
