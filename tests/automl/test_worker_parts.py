"""Parts of the worker that need no experiment: TFRecords, weights from files, and how a training begins."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import trainmark

PACKAGE = Path(trainmark.__file__).parent
DEMO = PACKAGE / "automl" / "demo" / "start.json"


@pytest.fixture(autouse=True)
def as_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("probe", "workloads/lib", "workloads/automl_trial"):
        monkeypatch.syspath_prepend(str(PACKAGE / folder))


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    found = b""
    while True:
        value, part = value >> 7, value & 0x7F
        found += bytes([part | (0x80 if value else 0)])
        if not value:
            return found


def jpeg(shade: int) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, shade, shade)).save(out, "JPEG")
    return out.getvalue()


def record(picture: bytes, label: int, packed: bool) -> bytes:
    from tfrecords import masked_crc

    integers = field(1, varint(label)) if packed else varint(1 << 3) + varint(label)
    features = b""
    for name, value in (("image/encoded", field(1, field(1, picture))), ("image/class/label", field(3, integers))):
        features += field(1, field(1, name.encode()) + field(2, value))
    # A feature of floats, which is none of our business.
    features += field(1, field(1, b"image/object/bbox/xmin") + field(2, field(2, field(1, b"\0\0\0\0"))))
    data = field(1, features)
    head = len(data).to_bytes(8, "little")
    return head + masked_crc(head).to_bytes(4, "little") + data + masked_crc(data).to_bytes(4, "little")


def write_shards(folder: Path) -> None:
    folder.mkdir()
    for part, count in (("train", 3), ("validation", 2)):
        for shard in range(count):
            content = b"".join(
                record(jpeg(20 * (4 * shard + n)), 1 + (4 * shard + n) % 5, bool(n % 2)) for n in range(4)
            )
            (folder / f"{part}-{shard:05d}-of-{count:05d}").write_bytes(content)


def test_the_checksum_is_that_of_the_format() -> None:
    from tfrecords import masked_crc

    # CRC-32C of "123456789" is 0xE3069283, rotated by 15 and shifted by 0xa282ead8.
    crc = 0xE3069283
    assert masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_tfrecords_are_read_without_tensorflow(tmp_path: Path) -> None:
    import image_data
    import numpy as np

    write_shards(tmp_path / "data")
    wanted = image_data.Wanted(32, 3, 5, 0, 0)
    for _ in range(2):  # the second time by the index that was kept
        train, test, kind = image_data.open_data(str(tmp_path / "data"), None, wanted, tmp_path / "index")
        assert (kind, len(train), len(test)) == ("tfrecord", 12, 8)
        batch = train.batch(np.arange(12), None)
        assert batch.images.shape == (12, 3, 32, 32)
        # Labels count from 1 in the files.
        assert batch.labels.tolist() == [n % 5 for n in range(12)]
        assert [round(float(image.mean()) / 20) for image in batch.images] == list(range(12))
    assert "tensorflow" not in sys.modules and len(list((tmp_path / "index").iterdir())) == 2


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    import image_data
    from trainmark_job import InputError

    write_shards(tmp_path / "data")
    file = tmp_path / "data" / "train-00001-of-00003"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(InputError, match="train-00001-of-00003 is no TFRecord file, or cut short"):
        image_data.open_data(str(tmp_path / "data"), None, image_data.Wanted(32, 3, 5, 0, 0), tmp_path)


@pytest.mark.parametrize("kind", ["pt", "safetensors", "h5", "foreign"])
def test_weights_from_files(tmp_path: Path, kind: str) -> None:
    import preparation
    import torch

    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.network import build

    graph = load(DEMO)
    given, own = build(graph).state_dict(), build(graph).state_dict()
    file = tmp_path / f"weights.{kind if kind != 'foreign' else 'pt'}"
    named = {name: value for name, value in given.items() if "num_batches" not in name}
    if kind == "safetensors":
        pytest.importorskip("safetensors.torch").save_file(named, file)
    elif kind == "h5":
        _write_keras(pytest.importorskip("h5py"), file, named)
    else:
        # A foreign file has other names, in the order of computation.
        torch.save({f"stem.{name}" if kind == "foreign" else name: value for name, value in named.items()}, file)
    made, taken = preparation.weights_of_file(str(file), graph, own)
    assert taken == len(named)
    assert all(torch.equal(made[name], value) for name, value in named.items())


def _write_keras(h5py: Any, file: Path, named: dict[str, Any]) -> None:
    layers: dict[str, dict[str, Any]] = {}
    for name, value in named.items():
        layer, _, part = name.partition(".")
        kernel = value.permute(2, 3, 1, 0) if value.dim() == 4 else value.t() if value.dim() == 2 else value
        layers.setdefault(layer, {})[part] = kernel.contiguous().numpy()
    with h5py.File(file, "w") as out:
        out.attrs["layer_names"] = [name.encode() for name in layers]
        for layer, parts in layers.items():
            group = out.create_group(layer)
            group.attrs["weight_names"] = [part.encode() for part in parts]
            for part, value in parts.items():
                group[part] = value


def test_weights_that_are_code_are_refused(tmp_path: Path) -> None:
    import pickle

    import preparation
    from trainmark_job import InputError

    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.network import build

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "done",)

    (tmp_path / "weights.pt").write_bytes(pickle.dumps({"l0.weight": Evil()}))
    graph = load(DEMO)
    with pytest.raises(InputError, match="cannot be read"):
        preparation.weights_of_file(str(tmp_path / "weights.pt"), graph, build(graph).state_dict())
    assert not (tmp_path / "done").exists()


def test_hyper_parameters_change_the_graph_that_is_counted() -> None:
    from trainmark.automl.graph.flops import count
    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.moves import Move, apply, tuned
    from trainmark.automl.graph.network import build
    from trainmark.automl.graph.weights import fitted

    start = load(DEMO)
    child = apply(start, Move("deeper", 2, 3))
    changed = tuned(child, len(start.layers), 5, 0.1)
    kernels = [layer.kernel for layer in changed.layers if layer.op == 0]
    # Convolutions of the start model keep theirs; a network without dropout gets one.
    assert kernels == [3, 3, 5] and sum(layer.op == 6 for layer in changed.layers) == 1
    assert count(changed, "trainmark").train > count(child, "trainmark").train
    weights, taken = fitted(build(child).state_dict(), build(changed).state_dict())
    build(changed).load_state_dict(weights)
    assert taken == len(weights)


def _heir(tmp_path: Path) -> tuple[Any, Any, Any]:
    """Trial files with a parent without weights and its child, which is to be trained."""
    from trainmark.automl.experiment.worker import Assignment
    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.moves import Move, apply
    from trainmark.automl.ledger.files import TrialFiles
    from trainmark.automl.ledger.ledger import Entry

    files, start = TrialFiles(tmp_path), load(DEMO)
    # Its new batch norm begins with another's numbers: they must not be the same memory.
    move = Move("deeper", 2, 3)
    parent = Entry(0, "done", "a", files.put_graph(start), value=0.5)
    child = Entry(1, "running", "b", files.put_graph(apply(start, move)), 0, parent.file, (move,))
    return files, start, Assignment(child, 0, len(start.layers), parent)


@pytest.mark.parametrize("ahead", [True, False], ids=["beside training", "at once"])
def test_a_training_begins_with_what_its_parent_computes(tmp_path: Path, ahead: bool) -> None:
    """And what is made beside another training draws none of its random numbers."""
    import torch
    from preparation import Preparation

    from trainmark.automl.experiment.config import Experiment
    from trainmark.automl.graph.network import build

    files, start, given = _heir(tmp_path)
    weights = build(start).state_dict()
    files.put_weights(0, weights)
    preparation = Preparation(Experiment(schema=1, name="x", data="synthetic"), files)
    torch.manual_seed(5)
    if ahead:
        preparation.prepare(given)
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(5))
    trial = preparation.trial(given)
    prepared, network = preparation.of(trial, given)
    assert trial.inherited and prepared.network is network and prepared.graph == files.graph(given.entry.file)
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(1))
    old = build(start)
    old.load_state_dict(weights)
    images = torch.rand(4, 1, 28, 28)
    assert torch.allclose(network.eval()(images), old.eval()(images), atol=1e-4)
    places = [value.data_ptr() for value in network.state_dict().values()]
    assert len(set(places)) == len(places)


def test_what_fails_beside_training_fails_when_it_is_its_turn(tmp_path: Path) -> None:
    """Only then is it known which trial it was that ended a worker."""
    import torch
    from preparation import Preparation

    from trainmark.automl.experiment.config import Experiment

    files, _, given = _heir(tmp_path)
    files.put_weights(0, {"strange": torch.zeros(3)})
    preparation = Preparation(Experiment(schema=1, name="x", data="synthetic"), files)
    preparation.prepare(given)
    with pytest.raises(KeyError):
        preparation.of(preparation.trial(given), given)


def test_a_training_without_a_parent_draws_its_weights_the_same_way_each_time(tmp_path: Path) -> None:
    import msgspec
    import torch
    from preparation import Preparation

    from trainmark.automl.experiment.config import Experiment

    files, _, given = _heir(tmp_path)
    given = msgspec.structs.replace(given, parent=None)
    preparation = Preparation(Experiment(schema=1, name="x", data="synthetic"), files)
    preparation.prepare(given)
    trial = preparation.trial(given)
    (_, first), (_, second) = preparation.of(trial, given), preparation.of(trial, given)
    assert not trial.inherited and first is not second
    assert all(torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True))
