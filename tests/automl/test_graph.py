"""Graphs: start models, JSON in and out, and files that are wrong, hostile or huge."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.automl.aiperf_writer import to_aiperf
from tests.automl.graphs import networks
from tests.conftest import Cli
from trainmark.automl.graph.drawing import drawing
from trainmark.automl.graph.graph import OPS, Graph
from trainmark.automl.graph.graph_json import decode, encode
from trainmark.automl.graph.start_networks import resnet50, small_cnn, start
from trainmark.errors import UserError
from trainmark.i18n.speaker import say


def test_start_models_are_aiperfs_and_nnis() -> None:
    graph = resnet50()
    kinds = Counter(OPS[layer.op] for layer in graph.layers)
    assert len(graph.layers) == 174 and round(graph.size / 1e6, 2) == 25.64
    assert kinds == {
        **{"conv": 53, "batch_norm": 53, "relu": 49, "add": 16},
        **{"max_pool": 1, "global_avg_pool": 1, "dense": 1},
    }
    assert len(small_cnn().layers) == 17
    assert start("small_cnn", (28, 28, 1), 7).classes == 7


@settings(max_examples=60, deadline=None)
@given(networks())
def test_json_brings_back_the_same_graph(graph: Graph) -> None:
    assert decode(encode(graph)) == graph
    assert decode(json.dumps(to_aiperf(graph))) == graph


def test_nnis_own_spelling(tmp_path: Path) -> None:
    """As a file of NNI has it: whole numbers as floats, tensors numbered in any order, dropout of two dimensions."""
    file = tmp_path / "nni.json"
    file.write_text(
        json.dumps(
            {
                "input_shape": [8, 8, 3],
                "weighted": False,
                "vis": None,
                "operation_history": [["to_wider_model", 0, 4]],
                "node_list": [[0, [8, 8, 3]], [1, [8, 8, 4]], [2, [4]], [3, [8, 8, 4]], [4, [4]], [5, [10]]],
                "layer_list": [
                    [0, ["StubConv2d", 0, 3, 3, 4, 3, 1, 1]],
                    [1, ["StubGlobalPooling2d", 1, 2]],
                    [2, ["StubReLU", 3, 1]],
                    [3, ["StubDropout2d", 2, 4, 0.25]],
                    [4, ["StubDense", 4, 5, 4.0, 10]],
                ],
                "adj_list": {"0": [[3, 0]], "1": [[2, 1]], "2": [[4, 3]], "3": [[1, 2]], "4": [[5, 4]], "5": []},
            }
        )
    )
    graph = start(str(file))
    assert [OPS[graph.layers[index].op] for index in graph.order] == [
        *("conv", "relu", "global_avg_pool", "dropout", "dense"),
    ]
    assert graph.size == 4 * 28 + 50


def broken(change: Callable[[dict[str, Any]], object], aiperf: bool = False) -> str:
    raw = copy.deepcopy(to_aiperf(small_cnn()) if aiperf else json.loads(encode(small_cnn())))
    change(raw)
    with pytest.raises(UserError) as error:
        decode(json.dumps(raw), "g.json")
    assert str(error.value).startswith("g.json: ") and len(str(error.value)) < 400
    return str(error.value)


def test_wrong_graphs_are_named() -> None:
    assert "cycle" in broken(lambda raw: raw["layers"][0].update(inputs=[5]))
    assert "did you mean `conv`" in broken(lambda raw: raw["layers"][2].update(op="cnov"))
    assert "`filters`" in broken(lambda raw: raw["layers"][2].update(filter=3))
    assert "2.5; a whole number" in broken(lambda raw: raw["layers"][2].update(filters=2.5))
    assert "True; a whole number" in broken(lambda raw: raw["layers"][2].update(filters=True))
    assert "1 to 32768" in broken(lambda raw: raw["layers"][2].update(filters=10**9))
    assert "does not exist" in broken(lambda raw: raw["layers"][2].update(inputs=[99]))
    assert "read by nobody" in broken(lambda raw: raw["layers"][3].update(inputs=[1]))
    assert "cannot take 1×1×64" in broken(lambda raw: raw.update(input=[4, 4, 3]))
    assert "input shape" in broken(lambda raw: raw.update(input=[0, 4, 3]))
    assert "version" in broken(lambda raw: raw.update(graph=7))
    assert "unknown key" in broken(lambda raw: raw.update({"__class__": "os.system"}))
    assert "4096 are allowed" in broken(lambda raw: raw.update(layers=raw["layers"] * 300))
    assert "rate from 0" in broken(lambda raw: raw["layers"][13].update(rate=-1))


def test_wrong_files_of_aiperf_are_named() -> None:
    assert "cycle" in broken(_close_a_cycle, aiperf=True)
    assert "StubConv2d" in broken(lambda raw: raw["layer_list"][2][1].__setitem__(0, "StubConv9d"), aiperf=True)
    assert "gets 3" in broken(lambda raw: raw["layer_list"][2][1].__setitem__(3, 5), aiperf=True)
    assert "adj_list and layer_list differ" in broken(lambda raw: raw["adj_list"].update({"0": [[9, 0]]}), aiperf=True)
    assert "made by layer" in broken(lambda raw: raw["layer_list"][2][1].__setitem__(2, 1), aiperf=True)
    assert "found nothing" in broken(lambda raw: raw.update(layer_list=None), aiperf=True)


def _close_a_cycle(raw: dict[str, Any]) -> None:
    raw["layer_list"][4][1] = ["StubAdd", [4, 9], 5]
    raw["adj_list"]["9"].append([5, 4])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"layers": ' * 5000, "nested too deeply"),
        ("{", "not JSON"),
        ("\xff\xfe", "not JSON"),
        ("[]", "expected an object"),
        ('{"graph": 1, "input": [1e999, 2, 3], "layers": []}', "JSON|whole number|0 layers|input"),
        (
            '{"graph": 1, "input": [123456789012345678901234567890, 2, 3], "layers": []}',
            "JSON|whole number|0 layers|input",
        ),
        (" " * (9 * 2**20), "larger than"),
    ],
)
def test_hostile_text(cli: Cli, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        decode(text)
    (cli.folder / "g.json").write_text(text, encoding="latin-1")
    done = cli("automl", "flops", "g.json", code=2)
    assert "g.json" in done.stderr and "Traceback" not in done.stderr


def test_flops_from_a_file_of_aiperf(cli: Cli) -> None:
    (cli.folder / "resnet50.json").write_text(json.dumps(to_aiperf(resnet50())))
    for name in ("resnet50.json", "resnet50"):
        done = cli("automl", "flops", name, "--rules", "aiperf", "--json")
        told = json.loads(done.stdout)
        assert (told["eval"], told["train"], told["epoch"]) == (7_806_583_495, 23_053_458_315, 29_898_755_817_950_000)
    assert "did you mean" in cli("automl", "flops", "resnet50", "--rules", "aipref", code=2).stderr


def test_a_network_is_drawn_with_all_its_layers_and_links() -> None:
    graph = start("resnet50", (224, 224, 3), 1000)
    drawn = drawing(graph, "network")
    said = [say(row.name) for row in drawn.rows]
    assert said[:3] == ["input", "conv 7×7, 64 /2, BN, ReLU", "max pool 3×3 /2"]
    assert said[-1].startswith("dense 1000") and drawn.rows[-1].shape == "1000"
    assert sum(row.size for row in drawn.rows) == graph.size
    # Sixteen blocks, each with an addition that reads two rows.
    additions = [number for number, text in enumerate(said) if text.startswith("add")]
    assert len(additions) == 16
    assert all(sum(end == number for _, end in drawn.links) == 2 for number in additions)
    # Every row but the first reads something that stands above it.
    assert {end for _, end in drawn.links} == set(range(1, len(said))) and all(a < b for a, b in drawn.links)
