"""Parts of the worker that need no experiment: TFRecords, weights from files, and how a training begins."""

from __future__ import annotations

import io
import re
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
    assert "tensorflow" not in sys.modules and len(list((tmp_path / "index").glob("*.npy"))) == 2


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    import image_data
    from trainmark_job import InputError

    write_shards(tmp_path / "data")
    file = tmp_path / "data" / "train-00001-of-00003"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(InputError, match="train-00001-of-00003 is no TFRecord file, or cut short"):
        image_data.open_data(str(tmp_path / "data"), None, image_data.Wanted(32, 3, 5, 0, 0), tmp_path)


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_own_weights_from_files(tmp_path: Path, kind: str) -> None:
    import torch
    from weights_file import weights_of_file

    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.network import build

    graph = load(DEMO)
    given, own = build(graph).state_dict(), build(graph).state_dict()
    file = tmp_path / f"weights.{kind}"
    named = {name: value for name, value in given.items() if "num_batches" not in name}
    if kind == "safetensors":
        pytest.importorskip("safetensors.torch").save_file(named, file)
    else:
        torch.save(given, file)
    taken = weights_of_file(str(file), graph, own)
    assert (taken.source, taken.tensors, taken.drawn) == ("trainmark", len(named), [])
    assert all(torch.equal(taken.weights[name], value) for name, value in named.items())


def _resnet50(change: Any = None) -> dict[str, Any]:
    """ResNet-50's tensors, each of its own numbers, by torchvision's names; a few channels stand for all."""
    import torch

    shapes = {"conv1.weight": (64, 3, 7, 7), "fc.weight": (1000, 2048), "fc.bias": (1000,)}
    norms = {"bn1": 64}
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, came = 64 << stage, 64 << stage + 1 if stage else 64
        for block in range(blocks):
            place = f"layer{stage + 1}.{block}"
            shapes |= {f"{place}.conv1.weight": (width, 4 * width if block else came, 1, 1)}
            shapes |= {f"{place}.conv2.weight": (width, width, 3, 3), f"{place}.conv3.weight": (4 * width, width, 1, 1)}
            norms |= {f"{place}.bn1": width, f"{place}.bn2": width, f"{place}.bn3": 4 * width}
            if not block:
                shapes[f"{place}.downsample.0.weight"] = (4 * width, came, 1, 1)
                norms[f"{place}.downsample.1"] = 4 * width
    for name, width in norms.items():
        shapes |= {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    # One number fills a tensor: to tell them apart is all that is asked, and it costs no memory.
    found = {name: torch.tensor(float(at)).expand(shape) for at, (name, shape) in enumerate(shapes.items(), 1)}
    return found | (change or {})


def _keras_names(named: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """As `keras.applications.ResNet50` saves them: by layer, with a bias for each convolution."""
    import torch

    layers: dict[str, dict[str, Any]] = {}
    for name, value in named.items():
        layer, _, part = name.rpartition(".")
        found = re.fullmatch(r"layer(\d)\.(\d)\.(?:(conv|bn)(\d)|downsample\.(\d))", layer)
        if found:
            kind = found[3] or ("conv", "bn")[int(found[5])]
            layer = f"conv{int(found[1]) + 1}_block{int(found[2]) + 1}_{found[4] or 0}_{kind}"
        else:
            layer = {"conv1": "conv1_conv", "bn1": "conv1_bn", "fc": "predictions"}[layer]
        parts = layers.setdefault(layer, {})
        norm = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
        if layer.endswith("_bn"):
            parts[f"{layer}/{norm[part]}:0"] = value
        elif value.dim() == 4:
            parts[f"{layer}/kernel:0"] = value.permute(2, 3, 1, 0)
            parts[f"{layer}/bias:0"] = torch.zeros(value.shape[0])
        else:
            parts[f"{layer}/{'kernel' if part == 'weight' else 'bias'}:0"] = value.t()
    # In the order of names, which is not that of computation.
    return dict(sorted(layers.items()))


@pytest.mark.parametrize("source", ["torchvision or timm", "Keras"])
@pytest.mark.slow
def test_weights_of_resnet50_land_by_name(tmp_path: Path, source: str) -> None:
    """Every tensor in its place, whatever the order of the file; where a file has no bias there is none."""
    import torch
    from weights_file import weights_of_file

    from trainmark.automl.graph.network import build
    from trainmark.automl.graph.start_networks import resnet50

    graph, given = resnet50(), _resnet50()
    own = build(graph).state_dict()
    file = tmp_path / ("weights.h5" if source == "Keras" else "weights.pt")
    if source == "Keras":
        h5py = pytest.importorskip("h5py")
        with h5py.File(file, "w") as out:
            layers = _keras_names(given)
            out.attrs["layer_names"] = [name.encode() for name in layers]
            for layer, parts in layers.items():
                group = out.create_group(layer)
                group.attrs["weight_names"] = [part.encode() for part in parts]
                for part, value in parts.items():
                    group.create_dataset(part, data=value.numpy(), compression="gzip")
    else:
        torch.save(dict(reversed(given.items())), file)
    taken = weights_of_file(str(file), graph, own)
    biases = 53 if source == "Keras" else 0
    assert (taken.source, taken.tensors, taken.drawn) == (source, len(given) + biases, [])
    # Along the layers, the numbers must be those of the same places in torchvision's order of computation.
    order = ["conv1", "bn1"]
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            place = f"layer{stage}.{block}."
            order += [place + part for part in ("conv1", "bn1", "conv2", "bn2", "conv3")]
            order += [place + part for part in (("downsample.0", "bn3", "downsample.1") if not block else ("bn3",))]
    order.append("fc")
    mine = dict.fromkeys(name.partition(".")[0] for name in own)
    for layer, theirs in zip(mine, order, strict=True):
        for part in ("weight", "bias", "running_mean", "running_var"):
            if f"{layer}.{part}" in own:
                wanted = given.get(f"{theirs}.{part}")
                numbers = taken.weights[f"{layer}.{part}"].unique().tolist()
                assert numbers == ([0.0] if wanted is None else wanted.unique().tolist()), (layer, theirs, part)


def test_weights_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    import torch
    from trainmark_job import InputError
    from weights_file import weights_of_file

    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.network import build
    from trainmark.automl.graph.start_networks import resnet50

    file, graph = tmp_path / "weights.pt", resnet50(classes=10)
    own = build(graph).state_dict()
    torch.save(_resnet50(), file)
    # A classifier for other classes is drawn anew, and it is said.
    assert weights_of_file(str(file), graph, own).drawn == ["l173.bias", "l173.weight"]
    wrong = {"layer5.0.bn1.weight": torch.zeros(1), "layer2.0.bn1.weight": torch.zeros(3)}
    torch.save({name: value for name, value in _resnet50(wrong).items() if name != "bn1.weight"}, file)
    said = (
        r"layer5.0.bn1.weight is of no layer; layer2.0.bn1.weight is \(3,\), the network's \(128,\); l1.weight is not"
    )
    with pytest.raises(InputError, match=said):
        weights_of_file(str(file), graph, own)
    demo = load(DEMO)
    with pytest.raises(InputError, match=r"names such as `conv1\.weight` are not known for this network"):
        weights_of_file(str(file), demo, build(demo).state_dict())


def test_weights_that_are_code_are_refused(tmp_path: Path) -> None:
    import pickle

    from trainmark_job import InputError
    from weights_file import weights_of_file

    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.network import build

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "done",)

    (tmp_path / "weights.pt").write_bytes(pickle.dumps({"l0.weight": Evil()}))
    graph = load(DEMO)
    with pytest.raises(InputError, match="cannot be read"):
        weights_of_file(str(tmp_path / "weights.pt"), graph, build(graph).state_dict())
    assert not (tmp_path / "done").exists()


def test_hyper_parameters_change_the_graph_that_is_counted() -> None:
    from trainmark.automl.graph.flops import count
    from trainmark.automl.graph.graph_json import load
    from trainmark.automl.graph.moves import apply, tuned
    from trainmark.automl.graph.network import build
    from trainmark.automl.graph.space import Move
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
    from trainmark.automl.graph.moves import apply
    from trainmark.automl.graph.space import Move
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
