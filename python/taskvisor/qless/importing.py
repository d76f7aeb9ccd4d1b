"""Imports the class that a job names, again if its file has changed."""

from __future__ import annotations

import importlib
import os
import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def imported(name: str, fresh: Optional[Freshness] = None) -> Any:
    """Returns the class of that name.

    >>> imported("taskvisor.qless.importing.Freshness") is Freshness
    True
    """
    module_name, _, class_name = name.rpartition(".")
    if not module_name:
        raise ImportError(f"the class {name!r} names no module; a class is called module.Class")
    module = importlib.import_module(module_name) if fresh is None else fresh.imported(module_name)
    return getattr(module, class_name)


class Freshness:
    """Reloads modules whose files have changed."""

    def __init__(self) -> None:
        self._started = time.time()
        self._seen: dict[str, float] = {}

    def imported(self, name: str) -> types.ModuleType:
        """The module in the version of its file now."""
        known = name in sys.modules
        module = importlib.import_module(name)
        try:
            changed = os.stat(module.__file__ or "").st_mtime
        except (OSError, AttributeError):
            # Built in, or its file is gone: there is no newer version.
            return module
        if known and changed > self._seen.get(name, self._started):
            importlib.invalidate_caches()
            module = importlib.reload(module)
        self._seen[name] = changed
        return module
