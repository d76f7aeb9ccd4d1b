"""An application of Django: its set-up in each worker, and the settings of django-rq.

Django takes part only where DJANGO_SETTINGS_MODULE names its settings and it is installed.
"""

from __future__ import annotations

import importlib
import os
from urllib.parse import quote, urlsplit

from . import redis_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Optional

#: The variable that names the module of its settings.
VARIABLE = "DJANGO_SETTINGS_MODULE"


def set_up() -> bool:
    """Sets Django up, if there is any. True then; a second time it does nothing else."""
    if not os.environ.get(VARIABLE):
        return False
    try:
        django: Any = importlib.import_module("django")
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        return False
    if not importlib.import_module("django.apps").apps.ready:
        django.setup()
    return True


def setting(name: str) -> Any:
    """A setting of the application; None if it has none of this name."""
    return getattr(importlib.import_module("django.conf").settings, name, None)


def close_connections() -> None:
    """Closes the connections to databases that were opened while the application was loaded: forks cannot share
    them."""
    importlib.import_module("django.db").connections.close_all()


def url(queues: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Optional[str]:
    """The Redis of these queues in RQ_QUEUES; None if none of them is there.

    >>> queues = {"default": {"HOST": "db", "PORT": 6379, "DB": 2, "PASSWORD": "a/b"},
    ...           "low": {"URL": "redis://db", "DB": 3}}
    >>> url(queues, ["default"]), url(queues, ["low"]), url(queues, ["other"])
    ('redis://:a%2Fb@db:6379/2', 'redis://db/3', None)
    >>> url(queues, ["default", "low"])
    Traceback (most recent call last):
    ...
    ValueError: the queues default and low of RQ_QUEUES are in two Redis databases: a worker has one
    """
    found: dict[str, str] = {}
    for name in names:
        if name in queues:
            found.setdefault(_url(name, queues[name]), name)
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise ValueError(f"the queues {first} and {second} of RQ_QUEUES are in two Redis databases: a worker has one")
    return next(iter(found), None)


def _url(name: str, queue: Mapping[str, Any]) -> str:
    if queue.get("URL"):
        address = str(queue["URL"])
        parts = urlsplit(address)
        has_db = parts.path.strip("/") or "db=" in parts.query or parts.scheme == "unix"
        return address if has_db or queue.get("DB") is None else parts._replace(path=f"/{queue['DB']}").geturl()
    if queue.get("USE_REDIS_CACHE"):
        raise ValueError(f"RQ_QUEUES[{name!r}] is in a cache of Django: -u URL says where its Redis is")
    if queue.get("UNIX_SOCKET_PATH"):
        return f"unix://{quote(str(queue['UNIX_SOCKET_PATH']))}?db={queue.get('DB') or 0}"
    if queue.get("SENTINELS"):
        kept = {"DB": queue.get("DB") or 0, "MASTER_NAME": queue["MASTER_NAME"], "INSTANCES": queue["SENTINELS"],
                "USERNAME": queue.get("USERNAME"), "PASSWORD": queue.get("PASSWORD"),
                "SENTINEL_KWARGS": queue.get("SENTINEL_KWARGS", {}),
                "SSL": queue.get("CONNECTION_KWARGS", {}).get("ssl")}
        return redis_url.url({"SENTINEL": kept})
    login = redis_url.login(queue.get("USERNAME"), queue.get("PASSWORD"))
    return (f"redis{'s' if queue.get('SSL') else ''}://{login}"
            f"{queue.get('HOST', 'localhost')}:{queue.get('PORT', 6379)}/{queue.get('DB') or 0}")
