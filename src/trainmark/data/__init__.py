"""Data sets by name: what there is, where it is on this machine, and how to get it.

`locate` never fetches; `get` does. A set is in the cache whole and checked, or not at all.
"""

from __future__ import annotations

from trainmark.data.cache import get, home, locate
from trainmark.data.records import DataFile, DataSet, Package, catalogue, named

__all__ = ["DataFile", "DataSet", "Package", "catalogue", "get", "home", "locate", "named"]
