"""AutoML as a load: architecture graphs, morphisms, search, trials. Import from the modules, late where they are heavy.

graph        `Graph(shape, layers)` frozen; `shape` is (height, width, channels) or (features,). `layers` is a tuple of
             `Layer(op, a, b, width, kernel, stride, extra)`, seven ints each: `a`, `b` are the layers that are read
             (INPUT = -1, NONE = -2 for no second one). Worked out once: `.order` (topological), `.consumers`, `.shapes`
             (per layer; [-1] is the input's), `.size` (parameters), `.depth`, `.output`, `.classes`.
             `check(graph, where)` raises UserError.
graph_json   `load(path)`, `decode(text)` read trainmark's and AIPerf's/NNI's JSON; `encode(graph) -> bytes`.
aiperf_json  `to_aiperf(graph) -> dict` as AIPerf and NNI write it.
starts       `resnet50(shape, classes)`, `small_cnn(shape, classes, blocks, width)`,
             `start(name_or_file, shape=None, classes=None)`.
moves        `Move(kind, layer, value)` (array-like in JSON; kinds deeper, wider, kernel, add, concat),
             `Limits(size, depth, kernel)`, `neighbours(graph, rng, n, limits) -> [(move, child)]` (rng: random.Random),
             `apply(graph, move) -> child` (raises Impossible), `preserving(graph, move)`.
             Children append layers: layer i of the parent is layer i of the child.
keys         `canonical_hash(graph) -> str` (equal: the same graph up to renaming, all widths included),
             `aiperf_key(graph)` (equal: AIPerf's edit distance is below 1e-5).
network      `build(graph, dropout=None) -> torch.nn.Module` whose state_dict has keys `l<layer>.weight`…,
             `source(graph)` its plain Python, `save(graph, weights, folder)` model.py + weights.pt + graph.json, which
             load without trainmark. It gives logits, unless the graph ends with a softmax.
weights      `inherit(parent_weights, parent, child, move, seed=0) -> child_weights` (state dicts of tensors): in
             evaluation the child then computes what its parent does.
flops        `count(graph, rules, kernel=None) -> Flops(eval, train)` per image, rules `aiperf` or `trainmark`;
             `epoch(flops, train_images, eval_images)`.
"""
