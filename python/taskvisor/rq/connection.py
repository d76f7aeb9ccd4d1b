"""A worker's connection to Redis: opened when the first command is sent, and never if none is."""

from __future__ import annotations

import importlib

from ..protocol import redis_tls
from ..protocol.redis_address import by_sentinel, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def connection(url: Optional[str], path: Optional[str]) -> Any:
    """A connection that is not opened yet. Without a URL, using it raises an error that says so."""
    if not url:
        return _Nowhere()
    files = redis_tls.options(url)
    url = plain(url)
    if "+sentinel://" in url:
        made = by_sentinel(url, files)
    else:
        module, _, name = (path or "redis.Redis").rpartition(".")
        made = getattr(importlib.import_module(module), name).from_url(url, **files)
    if files:
        redis_tls.pin(made.connection_pool)
    return made


class _Nowhere:
    """Stands for a connection that cannot be made."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"a job wants to ask Redis ({name}), and this worker has no URL of it: set RQ_REDIS_URL in the "
                           "environment of the pool, for example by `taskvisor start --env RQ_REDIS_URL`")
