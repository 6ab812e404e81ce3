"""AutoML experiments that are jobs, as far as they are: read on from where they were when somebody looked last."""

from __future__ import annotations

import threading
from collections import OrderedDict

from trainmark.automl.experiment import runs as experiments
from trainmark.automl.experiment.record import Reader
from trainmark.automl.experiment.result import Result
from trainmark.report import document as doc
from trainmark.store.rundir import RunDir
from trainmark.web.service.errors import Conflict

# Plan.kind of an experiment.
KIND = "automl"
# Experiments whose record is kept in memory.
_MOST_READERS = 16


class Searches:
    """Readers of experiments that were looked at last. Two looks at one read it one after the other."""

    def __init__(self) -> None:
        self._readers: OrderedDict[str, tuple[threading.Lock, Reader]] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, run: RunDir) -> Result:
        if run.manifest().plan.kind != KIND:
            raise Conflict("this run is no AutoML experiment")
        with self._lock:
            found = self._readers.pop(str(run.path), None) or (threading.Lock(), Reader(run))
            self._readers[str(run.path)] = found
            if len(self._readers) > _MOST_READERS:
                self._readers.popitem(last=False)
        lock, reader = found
        with lock:
            return experiments.look(run, reader)


def document(run: RunDir, found: Result) -> doc.Document:
    """As the experiment's own report draws it: score and error over time, the tree, the best network."""
    return experiments.document_of(run, found)
