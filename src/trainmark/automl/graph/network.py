"""A graph as a plain `torch.nn.Module`. There is one way to make it: the Python source that is also exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import Graph, Layer, patches, pool_padding

if TYPE_CHECKING:
    import torch

_HEAD = '''"""A network. Needs torch only: `load()` gives it with the weights that lie beside this file."""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

'''

_NETWORK = """
class Network(nn.Module):
    def __init__(self):
        super().__init__()
"""

# Parts that only transformers need.
_TRANSFORMER = """
class Tokens(nn.Module):
    def __init__(self, kinds, context, channels):
        super().__init__()
        self.table = nn.Embedding(kinds, channels)
        self.places = nn.Parameter(torch.empty(context, channels))
        for drawn in (self.table.weight, self.places):
            nn.init.normal_(drawn, std=0.02)

    def forward(self, x):
        return self.table(x) + self.places[: x.shape[1]]


class Patches(nn.Module):
    def __init__(self, colours, channels, patch, count):
        super().__init__()
        self.parts = nn.Conv2d(colours, channels, patch, stride=patch)
        self.places = nn.Parameter(torch.empty(count, channels))
        nn.init.normal_(self.places, std=0.02)

    def forward(self, x):
        return self.parts(x).flatten(2).transpose(1, 2) + self.places


class Attention(nn.Module):
    def __init__(self, channels, heads, size, causal):
        super().__init__()
        self.heads, self.size, self.causal = heads, size, causal
        self.norm = nn.LayerNorm(channels)
        self.read = nn.Linear(channels, 3 * heads * size)
        self.write = nn.Linear(heads * size, channels)

    def forward(self, x):
        batch, tokens, _ = x.shape
        read = self.read(self.norm(x)).reshape(batch, tokens, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(read[0], read[1], read[2], is_causal=self.causal)
        return x + self.write(found.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, hidden)
        self.narrow = nn.Linear(hidden, channels)

    def forward(self, x):
        return x + self.narrow(F.gelu(self.widen(self.norm(x))))

"""

_TAIL = """

def load(weights=Path(__file__).with_name("weights.pt")):
    network = Network()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return network.eval()
"""


_PARTS = (ops.TOKENS, ops.PATCHES, ops.ATTENTION, ops.MLP)


def source(graph: Graph) -> str:
    """The network as a Python file; takes images as batch × channels × height × width, texts as batch × tokens."""
    members = [(index, _member(graph, index)) for index in range(len(graph.layers))]
    made = [f"        self.l{index} = {text}\n" for index, text in members if text] or ["        pass\n"]
    parts = _TRANSFORMER if any(layer.op in _PARTS for layer in graph.layers) else ""
    return _HEAD + parts + _NETWORK + "".join(made) + "\n    def forward(self, x):\n" + _forward(graph) + _TAIL


def _member(graph: Graph, index: int) -> str:
    """What a layer keeps in the module, if it keeps anything."""
    layer = graph.layers[index]
    came = graph.shapes[layer.a]
    if layer.op == ops.CONV:
        return (
            f"nn.Conv2d({came[-1]}, {layer.width}, {layer.kernel}, stride={layer.stride}, padding={layer.kernel // 2})"
        )
    if layer.op == ops.BN:
        return f"nn.BatchNorm{'2d' if len(came) == 3 else '1d'}({came[-1]})"
    if layer.op == ops.DENSE:
        return f"nn.Linear({came[-1]}, {layer.width})"
    if layer.op == ops.DROPOUT:
        return f"nn.Dropout{'2d' if len(came) == 3 else ''}({layer.extra / 1e6})"
    if layer.op == ops.TOKENS:
        return f"Tokens({layer.kernel}, {layer.extra}, {layer.width})"
    if layer.op == ops.PATCHES:
        return f"Patches({came[-1]}, {layer.width}, {layer.kernel}, {patches(layer, came)})"
    if layer.op == ops.ATTENTION:
        return f"Attention({came[-1]}, {layer.width}, {layer.kernel}, causal={bool(layer.extra)})"
    if layer.op == ops.MLP:
        return f"MLP({came[-1]}, {layer.width})"
    return f"nn.LayerNorm({came[-1]})" if layer.op == ops.NORM else ""


def _forward(graph: Graph) -> str:
    """One line per layer. A variable is used again once nobody needs what it holds, so that memory is freed."""
    left = [len(readers) for readers in graph.consumers]
    names = {ops.INPUT: "x"}
    free: list[str] = []
    lines = []
    for index in graph.order:
        layer = graph.layers[index]
        ends = [layer.a] if layer.b in (ops.NONE, layer.a) else [layer.a, layer.b]
        text = _call(index, layer, names[layer.a], names.get(layer.b, ""))
        for end in ends:
            left[end] -= 1
            if not left[end]:
                free.append(names[end])
        names[index] = free.pop() if free else f"x{index}"
        lines.append(f"        {names[index]} = {text}\n")
    return "".join(lines) + f"        return {names[graph.output]}\n"


def _call(index: int, layer: Layer, a: str, b: str) -> str:
    if layer.op in (ops.CONV, ops.BN, ops.DENSE, ops.DROPOUT, ops.NORM, *_PARTS):
        return f"self.l{index}({a})"
    if layer.op == ops.MAXPOOL:
        return f"F.max_pool2d({a}, {layer.kernel}, stride={layer.stride}, padding={pool_padding(layer)})"
    return {
        ops.RELU: f"F.relu({a})",
        ops.GAP: f"{a}.mean((2, 3))",
        ops.MEAN: f"{a}.mean(1)",
        ops.ADD: f"{a} + {b}",
        ops.CONCAT: f"torch.cat(({a}, {b}), 1)",
        ops.FLATTEN: f"{a}.flatten(1)",
    }.get(layer.op, f"F.log_softmax({a}, 1)")


def build(graph: Graph) -> torch.nn.Module:
    """The network, with fresh weights."""
    space: dict[str, Any] = {"__name__": "network", "__file__": "network.py"}
    # Nothing but checked integers of the graph goes into the text.
    exec(compile(source(graph), "network.py", "exec"), space)  # noqa: S102
    network: torch.nn.Module = space["Network"]()
    return network


def save(graph: Graph, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """`model.py`, `weights.pt` and `graph.json`; the first two are all that is needed to use the network elsewhere."""
    import torch

    from trainmark.automl.graph.graph_json import encode

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(source(graph))
    (folder / "graph.json").write_bytes(encode(graph) + b"\n")
    torch.save({name: tensor.detach().cpu() for name, tensor in weights.items()}, folder / "weights.pt")
