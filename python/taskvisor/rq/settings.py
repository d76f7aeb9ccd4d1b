"""Reads the settings for `taskvisor rq worker`: ``python3 -m taskvisor.rq.settings [MODULE [-q=QUEUE]… [PATH]…]``.

They are those of the config module, of django-rq, or of the environment.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from ..worker.loading import print_failure
from .redis_url import url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

#: Where modules are looked for.
HINT = "-P DIR names the directory that has it."


def _names_a_redis(settings: Mapping[str, Any]) -> bool:
    return any(settings.get(key) is not None for key in ("REDIS_URL", "REDIS_HOST", "SENTINEL"))


def _of_django(queues: Any) -> Optional[str]:
    """The Redis in RQ_QUEUES of Django's settings, if there is any."""
    from . import django_app

    if not django_app.set_up():
        return None
    return django_app.url(django_app.setting("RQ_QUEUES") or {}, list(queues or ["default"]))


def main() -> int:
    """Prints the settings as JSON. What the module does not say django-rq does, and then the environment, as in RQ."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    queues = [given[3:] for given in sys.argv[2:] if given.startswith("-q=")]
    sys.path[:0] = map(os.path.abspath, [given for given in sys.argv[2:] if not given.startswith("-q=")] or ["."])
    loaded = name
    try:
        settings: Mapping[str, Any] = vars(importlib.import_module(name)) if name else os.environ
        loaded = os.environ.get("DJANGO_SETTINGS_MODULE", "")
        address = None if name and _names_a_redis(settings) else _of_django(queues or settings.get("QUEUES"))
    except Exception:
        print_failure("taskvisor.rq", loaded, HINT)
        return 1
    found: dict[str, Any] = {"url": address or url(settings)}
    if name:
        found.update({key.lower(): settings[key] for key in ("QUEUES", "NAME") if settings.get(key)})
    # A URL cannot hold a certificate.
    found["unused"] = sorted(key for key in settings if key.startswith(("REDIS_SSL_", "SENTRY_")) and settings[key])
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
