"""The address of a Redis as the supervisor takes it, for the client redis-py."""

from __future__ import annotations

import importlib
import socket
from urllib.parse import unquote

from . import redis_tls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: Options in the query of the broker's URL that only the supervisor knows, not RQ's client.
_OURS = {"protocol", "prefix", "name", "results_ttl", "worker_ttl", "maintenance_interval", "scheduler", "max_jobs"}


#: Schemes that the supervisor knows by other names than redis-py.
_SCHEMES = {"valkey": "redis", "valkeys": "rediss", "redis+unix": "unix"}
#: Names of options: the supervisor's, and those of redis-py.
_NAMES = {"user": "username", "pass": "password"}


def plain(url: str) -> str:
    """The URL for redis-py, made of one for the supervisor, without the files that `redis_tls.options` takes from it.

    >>> plain("rq+redis://:pw@host:6380/2?name=w1&socket_timeout=5")
    'redis://:pw@host:6380/2?socket_timeout=5'
    >>> plain("rq+unix:///run/redis.sock?db=1")
    'unix:///run/redis.sock?db=1'
    >>> plain("rq+rediss://host/0?ca=/etc/ca.pem")
    'rediss://host/0'
    >>> plain("rq+unix:///run/redis.sock?pass=pw")
    'unix:///run/redis.sock?password=pw'
    >>> plain("valkeys://host/0"), plain("redis+unix:///run/redis.sock")
    ('rediss://host/0', 'unix:///run/redis.sock')
    """
    url = url[3:] if url.startswith("rq+") else url
    head, _, query = url.partition("?")
    scheme, mark, rest = head.partition("://")
    head = _SCHEMES.get(scheme, scheme) + mark + rest
    kept = []
    for name, value in _pairs(query):
        if name not in _OURS and name not in redis_tls.FILES:
            kept.append(f"{_NAMES.get(name, name)}={value}")
    return f"{head}?{'&'.join(kept)}" if kept else head


def _pairs(query: str) -> list[tuple[str, str]]:
    """The names in a query with their values, as they are written."""
    return [(name, value) for name, _, value in (pair.partition("=") for pair in query.split("&") if pair)]


#: The options that the supervisor knows in the query, by what the URL begins with.
_KNOWN = {"redis": ("protocol",), "rediss": ("ca", "cert", "key", "protocol"), "unix": ("user", "pass", "db", "protocol"),
          "redis+sentinel": ("sentinel_user", "sentinel_pass"),
          "rediss+sentinel": ("ca", "cert", "key", "sentinel_user", "sentinel_pass", "sentinel_tls")}


def check(url: str) -> None:
    """Refuses what the supervisor refuses in the query of a Redis with jobs of taskvisor: it would have no effect.

    >>> check("redis://h/0?prefix=app")
    Traceback (most recent call last):
    ...
    ValueError: the broker's URL cannot be taken: it has 'prefix='; redis:// knows protocol there
    """
    scheme, _, rest = url.partition("://")
    known = _KNOWN[_SCHEMES.get(scheme, scheme)]
    given = dict(pair.partition("=")[::2] for pair in rest.partition("?")[2].partition("#")[0].split("&") if pair)
    # Only names are shown: a value may be a password.
    wrong = next((f"it has '{name}='" for name in given if name not in known), None)
    if wrong is None and given.get("protocol", "2") not in ("2", "3", "resp2", "resp3"):
        wrong = "'protocol=' is resp2 or resp3"
    if wrong is None and given.get("sentinel_tls", "no") not in ("yes", "no", ""):
        wrong = "'sentinel_tls=' is yes or no"
    if wrong is None and ("cert" in given) != ("key" in given):
        wrong = "'cert' and 'key' belong together: a certificate of ours and its private key"
    if wrong is not None:
        raise ValueError(f"the broker's URL cannot be taken: {wrong}; {scheme}:// knows {', '.join(known)} there")


def by_sentinel(url: str, more: Optional[dict[str, Any]] = None) -> Any:
    """A connection for `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, with `more` options of it."""
    # Not by urlsplit: some versions refuse a list with addresses in brackets.
    scheme, _, rest = url.partition("://")
    rest, _, asked = rest.partition("?")
    place, _, path = rest.partition("/")
    login, _, hosts = place.rpartition("@")
    user, _, password = login.partition(":")
    master, _, db = path.strip("/").partition("/")
    # As in the part before the host, where a plus is a plus.
    query = {name: unquote(value) for name, value in _pairs(asked)}
    given = {**query, **(more or {})}
    tls = {name: value for name, value in given.items() if name.startswith("ssl_")}
    sentinels = [_sentinel(host) for host in hosts.split(",")]
    own: dict[str, Any] = {"username": query.get("sentinel_user"), "password": query.get("sentinel_pass")}
    # A sentinel that is stopped keeps nobody for ever, either.
    own.update({name: value for name, value in (more or {}).items() if name.startswith("socket_")})
    options: dict[str, Any] = {"db": int(db or 0), "username": unquote(user) or None,
                               "password": unquote(password) or None, **(more or {})}
    if scheme.startswith("rediss"):
        options.update({"ssl": True, "ssl_check_hostname": True, **tls})
    if query.get("sentinel_tls") == "yes":
        # By the same certificates.
        own.update({"ssl": True, "ssl_check_hostname": True, **tls})
    sentinel = importlib.import_module("redis.sentinel").Sentinel(
        sentinels, sentinel_kwargs={name: value for name, value in own.items() if value}, **options)
    for known in sentinel.sentinels:
        redis_tls.pin(known.connection_pool)
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
