"""CPU seconds that NNI 2.10's NetworkMorphism tuner needs for one more architecture: `nni_generate.py N SEED`.

Runs in an environment of its own. The tuner is NNI's, unchanged, with its defaults; of the package around it only what
it imports is put in its place, since the rest is a server. It knows N different architectures, made by its own moves.
"""

from __future__ import annotations

import enum
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
import types
from copy import deepcopy


class OptimizeMode(enum.Enum):
    Minimize = "minimize"
    Maximize = "maximize"


def stand_in() -> None:
    """The package `nni` without what it does when it is imported."""
    spec = importlib.util.find_spec("nni")
    package, tuner, utils = (types.ModuleType(name) for name in ("nni", "nni.tuner", "nni.utils"))
    package.__path__ = list(spec.submodule_search_locations)
    package.ClassArgsValidator = type("ClassArgsValidator", (), {})
    tuner.Tuner = type("Tuner", (), {})
    utils.OptimizeMode, utils.extract_scalar_reward = OptimizeMode, float
    sys.modules.update({"nni": package, "nni.tuner": tuner, "nni.utils": utils})


def main() -> None:
    history, seed = int(sys.argv[1]), int(sys.argv[2])
    stand_in()
    import numpy as np
    from nni.algorithms.hpo.networkmorphism_tuner.bayesian import edit_distance
    from nni.algorithms.hpo.networkmorphism_tuner.graph_transformer import transform
    from nni.algorithms.hpo.networkmorphism_tuner.networkmorphism_tuner import NetworkMorphismTuner

    random.seed(seed)
    np.random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tuner = NetworkMorphismTuner(verbose=False)
        tuner.init_search()
        graphs, seen = [tuner.training_queue[0][0]], list(tuner.descriptors)
        fathers = [-1]
        while len(graphs) < history:
            father = random.randrange(len(graphs))
            for child in transform(deepcopy(graphs[father])):
                described = child.extract_descriptor()
                if min(edit_distance(described, other) for other in seen) > 1e-5:
                    child.clear_operation_history()
                    graphs.append(child)
                    seen.append(described)
                    fathers.append(father)
                    break
        tuner.training_queue = [(graph, fathers[number], number) for number, graph in enumerate(graphs)]
        tuner.model_count, tuner.descriptors = len(graphs), list(seen)
        tuner.history.append(None)  # or it would begin its search anew
        for number in range(history):
            tuner.generate_parameters(number)
        tuner.history.clear()
        for number, graph in enumerate(graphs):
            tuner.receive_trial_result(number, None, 0.5 + 0.004 * graph.n_layers + float(np.random.normal(0, 0.02)))
        begin = time.process_time()
        tuner.generate_parameters(history)
        spent = time.process_time() - begin
    print(json.dumps({"seconds": spent, "known": len(tuner.bo.gpr._x), "layers": len(seen[-1].layers)}))


if __name__ == "__main__":
    main()
