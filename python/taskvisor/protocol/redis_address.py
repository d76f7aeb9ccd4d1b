"""The address of a Redis as the supervisor takes it, for the client redis-py."""

from __future__ import annotations

import importlib
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: Options in the query of the broker's URL that only the supervisor knows, not RQ's client.
_OURS = {"prefix", "name", "results_ttl", "worker_ttl", "maintenance_interval", "scheduler", "max_jobs"}


#: Names of options: the supervisor's, and those of redis-py.
_NAMES = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile", "user": "username", "pass": "password"}


def plain(url: str) -> str:
    """The URL for redis-py, made of one for the supervisor.

    >>> plain("rq+redis://:pw@host:6380/2?name=w1&socket_timeout=5")
    'redis://:pw@host:6380/2?socket_timeout=5'
    >>> plain("rq+unix:///run/redis.sock?db=1")
    'unix:///run/redis.sock?db=1'
    >>> plain("rq+rediss://host/0?ca=/etc/ca.pem")
    'rediss://host/0?ssl_ca_certs=%2Fetc%2Fca.pem'
    >>> plain("rq+unix:///run/redis.sock?pass=pw")
    'unix:///run/redis.sock?password=pw'
    """
    url = url[3:] if url.startswith("rq+") else url
    head, _, query = url.partition("?")
    kept = urlencode([(_NAMES.get(name, name), value) for name, value in parse_qsl(query, keep_blank_values=True)
                      if name not in _OURS])
    return f"{head}?{kept}" if kept else head


def by_sentinel(url: str, more: Optional[dict[str, Any]] = None) -> Any:
    """A connection for `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, with `more` options of it."""
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    master, _, db = parts.path.strip("/").partition("/")
    query = dict(parse_qsl(parts.query))
    sentinels = [(host.rpartition(":")[0], int(host.rpartition(":")[2])) if ":" in host else (host, 26379)
                 for host in hosts.split(",")]
    own = {"username": query.get("sentinel_user"), "password": query.get("sentinel_pass")}
    options: dict[str, Any] = {"db": int(db or 0), "username": unquote(user) or None,
                               "password": unquote(password) or None, **(more or {})}
    if parts.scheme.startswith("rediss"):
        options.update({"ssl": True, **{name: value for name, value in query.items() if name.startswith("ssl_")}})
    if query.get("sentinel_tls") == "yes":
        own["ssl"] = "yes"
    sentinel = importlib.import_module("redis.sentinel").Sentinel(
        sentinels, sentinel_kwargs={name: value for name, value in own.items() if value}, **options)
    return sentinel.master_for(unquote(master) or "mymaster")


def shown(url: str) -> str:
    """The address without its password and its query.

    >>> shown("redis://me:secret@host:6380/2?ca=x"), shown("unix:///run/redis.sock?pass=pw")
    ('redis://host:6380/2', 'unix:///run/redis.sock')
    """
    scheme, mark, rest = url.partition("?")[0].partition("://")
    return scheme + mark + rest.rpartition("@")[2]
