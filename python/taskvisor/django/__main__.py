"""The program that the supervisor starts: ``python3 -m taskvisor.django [MODULE]… [--async]``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from ..worker import start
from ..worker.loading import print_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional


class _Later:
    """The application, once Django is set up."""

    def __getattr__(self, name: str) -> object:
        from .tasks import Tasks

        return getattr(Tasks(), name)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Sets Django up, says hello, and runs tasks until the supervisor stops the worker. Returns the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python3 -m taskvisor.django", allow_abbrev=False,
                                     description="Runs tasks of Django. Started by taskvisor.")
    parser.add_argument("modules", metavar="MODULE", nargs="*", help="import this, too, after all modules called tasks")
    parser.add_argument("--async", dest="coroutines", action="store_true", help="several at a time in one event loop")
    options = parser.parse_args(given)
    application = _Later()
    return start.run(application, lambda: _load(options.modules), options.coroutines,  # type: ignore[arg-type]
                     f"taskvisor.django {' '.join(given)}")


def _load(modules: list[str]) -> bool:
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        print("taskvisor.django: DJANGO_SETTINGS_MODULE is not set: name the settings of the site by "
              "`taskvisor start --env DJANGO_SETTINGS_MODULE=site.settings`", file=sys.stderr)
        return False
    name = os.environ["DJANGO_SETTINGS_MODULE"]
    try:
        importlib.import_module("django").setup()
        importlib.import_module("django.utils.module_loading").autodiscover_modules("tasks")
        for name in modules:
            importlib.import_module(name)
    except Exception:
        print_failure("taskvisor.django", name, "Start with --cwd DIR, or set PYTHONPATH.")
        return False
    # A fork cannot share what was opened while the application was loaded.
    importlib.import_module("django.db").connections.close_all()
    return True


if __name__ == "__main__":
    sys.exit(main())
