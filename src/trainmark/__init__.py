"""trainmark measures how fast, how far and how well machines train AI models.

`import trainmark as tm` gives the library: see `trainmark.api`. This file is also on the nodes, where nothing else of
the library is, so the library is imported when one of its names is first used.
"""

__version__ = "0.1.0"

# fmt: off
_LIBRARY = (
    "Result", "Run", "compare", "diagnose", "export", "history", "import_run", "open", "plan", "predict", "report",
    "run", "runs", "site", "start", "suite",
)
_CAMPAIGNS = ("accept", "bisect", "goodput", "search")
_REMOTE = ("connect",)
# fmt: on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainmark.api import Result as Result
    from trainmark.api import Run as Run
    from trainmark.api import compare as compare
    from trainmark.api import diagnose as diagnose
    from trainmark.api import export as export
    from trainmark.api import history as history
    from trainmark.api import import_run as import_run
    from trainmark.api import open as open
    from trainmark.api import plan as plan
    from trainmark.api import predict as predict
    from trainmark.api import report as report
    from trainmark.api import run as run
    from trainmark.api import runs as runs
    from trainmark.api import site as site
    from trainmark.api import start as start
    from trainmark.api import suite as suite
    from trainmark.api_campaigns import accept as accept
    from trainmark.api_campaigns import bisect as bisect
    from trainmark.api_campaigns import goodput as goodput
    from trainmark.api_campaigns import search as search
    from trainmark.api_remote import connect as connect


def __getattr__(name: str) -> object:
    if name not in _LIBRARY + _CAMPAIGNS + _REMOTE:
        raise AttributeError(f"module 'trainmark' has no attribute {name!r}")
    import importlib

    module = "trainmark.api" if name in _LIBRARY else "trainmark.api_campaigns"
    if name in _REMOTE:
        module = "trainmark.api_remote"
    return getattr(importlib.import_module(module), name)
