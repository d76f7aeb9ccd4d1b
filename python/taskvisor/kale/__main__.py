"""The program that the supervisor starts: ``python3 -m taskvisor.kale [-m MODULE]… [-p PATH]…``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from ..worker import start
from ..worker.loading import print_failure
from .installed import Installed
from .tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Says hello, and runs tasks until the supervisor stops the worker. Returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    if os.environ.get("TASKVISOR_MODE") == "coroutine":
        _parser().error("tasks of kale are no coroutines: use the mode prefork or fork")
    sys.path[:0] = map(os.path.abspath, options.path)
    tasks = Tasks()
    return start.run(tasks, lambda: _load(options, tasks), False, f"taskvisor.kale {' '.join(given)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m taskvisor.kale", allow_abbrev=False,
                                     description="Runs the tasks of kale. Started by taskvisor.")
    parser.add_argument("-m", "--import", dest="modules", metavar="MODULE", action="append", default=[],
                        help="import this before the first task; in the mode fork all tasks share it")
    parser.add_argument("-p", "--path", metavar="DIR", action="append", default=[],
                        help="look for modules here first")
    parser.add_argument("-w", "--worker-class", metavar="CLASS",
                        help="call the hooks of this subclass of kale.worker.Worker, as module.Class")
    return parser


def _load(options: argparse.Namespace, tasks: Tasks) -> bool:
    name = "kale"
    try:
        installed = Installed()
        name = "QUEUE_CONFIG"
        installed.queues()
        for name in options.modules:
            importlib.import_module(name)
        name = options.worker_class or "ON_WORKER_STARTUP"
        worker = options.worker_class
        tasks.start_up(installed, None if worker is None else installed.utils.class_import_from_path(worker))
    except Exception:
        print_failure("taskvisor.kale", name, "-p DIR names the directory that has it.")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
