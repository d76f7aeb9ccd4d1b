"""The address of a Redis as the supervisor takes it, for the client redis-py."""

from __future__ import annotations

import importlib
import socket
from urllib.parse import parse_qsl, unquote, urlencode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: Options in the query of the broker's URL that only the supervisor knows, not RQ's client.
_OURS = {"prefix", "name", "results_ttl", "worker_ttl", "maintenance_interval", "scheduler", "max_jobs"}


#: Schemes that the supervisor knows by other names than redis-py.
_SCHEMES = {"valkey": "redis", "valkeys": "rediss", "redis+unix": "unix"}
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
    >>> plain("valkeys://host/0"), plain("redis+unix:///run/redis.sock")
    ('rediss://host/0', 'unix:///run/redis.sock')
    """
    url = url[3:] if url.startswith("rq+") else url
    head, _, query = url.partition("?")
    scheme, mark, rest = head.partition("://")
    head = _SCHEMES.get(scheme, scheme) + mark + rest
    kept = urlencode([(_NAMES.get(name, name), value) for name, value in parse_qsl(query, keep_blank_values=True)
                      if name not in _OURS])
    return f"{head}?{kept}" if kept else head


def by_sentinel(url: str, more: Optional[dict[str, Any]] = None) -> Any:
    """A connection for `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, with `more` options of it."""
    # Not by urlsplit: some versions refuse a list with addresses in brackets.
    scheme, _, rest = url.partition("://")
    rest, _, asked = rest.partition("?")
    place, _, path = rest.partition("/")
    login, _, hosts = place.rpartition("@")
    user, _, password = login.partition(":")
    master, _, db = path.strip("/").partition("/")
    query = dict(parse_qsl(asked))
    sentinels = [_sentinel(host) for host in hosts.split(",")]
    own: dict[str, Any] = {"username": query.get("sentinel_user"), "password": query.get("sentinel_pass")}
    # A sentinel that is stopped keeps nobody for ever, either.
    own.update({name: value for name, value in (more or {}).items() if name.startswith("socket_")})
    options: dict[str, Any] = {"db": int(db or 0), "username": unquote(user) or None,
                               "password": unquote(password) or None, **(more or {})}
    if scheme.startswith("rediss"):
        options.update({"ssl": True, **{name: value for name, value in query.items() if name.startswith("ssl_")}})
    if query.get("sentinel_tls") == "yes":
        own["ssl"] = "yes"
    sentinel = importlib.import_module("redis.sentinel").Sentinel(
        sentinels, sentinel_kwargs={name: value for name, value in own.items() if value}, **options)
    return sentinel.master_for(unquote(master) or "mymaster")


def _sentinel(host: str) -> tuple[str, int]:
    """The name and the port of a sentinel, by the rules of the supervisor.

    >>> [_sentinel(host) for host in ("h:6", "h", "h:", "[::1]:5", "[fe80::1]", "::2")]
    [('h', 6), ('h', 26379), ('h', 26379), ('::1', 5), ('fe80::1', 26379), ('::2', 26379)]
    """
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        is_right = bool(closed) and _is_ipv6(name) and (not port or port.startswith(":"))
        port = port[1:]
    elif _is_ipv6(host):
        # Before the port is looked for: the last part of such an address would pass for one.
        name, port, is_right = host, "", True
    else:
        name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
        is_right = ":" not in name
    if not is_right or port and not (port.isdigit() and int(port) < 65536):
        raise ValueError("a URL of sentinels is redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB; an IPv6 address with a port "
                         "stands in brackets")
    return name, int(port or 26379)


def _is_ipv6(name: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, name)
    except OSError:
        return False
    return True


def shown(url: str) -> str:
    """The address without its password and its query.

    >>> shown("redis://me:secret@host:6380/2?ca=x"), shown("unix:///run/redis.sock?pass=pw")
    ('redis://host:6380/2', 'unix:///run/redis.sock')
    """
    scheme, mark, rest = url.partition("?")[0].partition("://")
    return scheme + mark + rest.rpartition("@")[2]
