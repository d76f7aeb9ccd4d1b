"""The URL of a Redis, from the settings of RQ."""

from __future__ import annotations

from urllib.parse import quote, urlencode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_FALSE = {"n", "no", "f", "false", ""}


def url(settings: Mapping[str, Any]) -> str:
    """The URL for the settings, with RQ's defaults.

    >>> url({"REDIS_HOST": "db", "REDIS_PORT": "6380", "REDIS_PASSWORD": "a/b"})
    'redis://:a%2Fb@db:6380/0'
    >>> url({"SENTINEL": {"INSTANCES": [("a", 1), ("b", 2)], "MASTER_NAME": "m", "DB": 2, "SSL": True}})
    'rediss+sentinel://a:1,b:2/m/2'
    """
    if settings.get("REDIS_URL") is not None:
        return str(settings["REDIS_URL"])
    sentinel = settings.get("SENTINEL")
    if sentinel is not None:
        hosts = ",".join(f"{host}:{port}" for host, port in sentinel.get("INSTANCES", [("localhost", 26379)]))
        own = sentinel.get("SENTINEL_KWARGS", {})
        query = {"sentinel_user": own.get("username"), "sentinel_pass": own.get("password"),
                 "sentinel_tls": "yes" if own.get("ssl") else None}
        given = urlencode({name: value for name, value in query.items() if value})
        return (f"redis{'s' if sentinel.get('SSL') else ''}+sentinel://"
                f"{login(sentinel.get('USERNAME'), sentinel.get('PASSWORD'))}{hosts}/"
                f"{quote(sentinel.get('MASTER_NAME', 'mymaster'), safe='')}/{sentinel.get('DB', 0)}"
                f"{'?' + given if given else ''}")
    tls = settings.get("REDIS_SSL", False)
    scheme = "rediss" if tls and str(tls).lower() not in _FALSE else "redis"
    return (f"{scheme}://{login(None, settings.get('REDIS_PASSWORD'))}{settings.get('REDIS_HOST', 'localhost')}:"
            f"{settings.get('REDIS_PORT', 6379)}/{settings.get('REDIS_DB', 0)}")


def login(user: Any, password: Any) -> str:
    """The part of a URL that says who asks."""
    if not password:
        return ""
    return f"{quote(str(user or ''), safe='')}:{quote(str(password), safe='')}@"
