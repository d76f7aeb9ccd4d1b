"""The program that the supervisor starts: ``python3 -m taskvisor.qless [-m MODULE]… [-p PATH]…``."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from ..worker import start
from ..worker.loading import print_failure
from . import shim
from .classes import Classes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn, Optional

#: Options of qless-py-worker for things that the supervisor does here.
_ELSEWHERE = {
    "--host": "taskvisor start -b URL", "-n": "nothing: they are called host-pool.slot",
    "--name": "nothing: they are called host-pool.slot",
    "-l": "log.dir in the settings of taskvisor", "--logger": "log.dir in the settings of taskvisor",
    "-d": "taskvisor start --sandbox", "--workdir": "taskvisor start --sandbox",
    "-w": "taskvisor start -w N", "--workers": "taskvisor start -w N",
    "-q": "taskvisor start -q QUEUE", "--queue": "taskvisor start -q QUEUE",
    "-g": "taskvisor start -m coroutine --concurrency N",
    "--greenlets": "taskvisor start -m coroutine --concurrency N",
    "-i": "nothing: nobody polls", "--interval": "nothing: nobody polls",
    "-r": "nothing: jobs of a dead supervisor are given back by the next one",
    "--resume": "nothing: jobs of a dead supervisor are given back by the next one",
}


class _Elsewhere(argparse.Action):
    """An option of qless-py-worker that the worker here does not have."""

    def __call__(self, parser: argparse.ArgumentParser, _namespace: Any, _values: Any,
                 option_string: Optional[str] = None) -> NoReturn:
        parser.error(f"{option_string} is not an option of the worker here; in its place: "
                     f"{_ELSEWHERE[option_string or '']}")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Says hello, and runs jobs until the supervisor stops the worker. Returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parse(given)
    if options.reload and os.environ.get("TASKVISOR_MODE", "prefork") != "prefork":
        _parser().error("--reload is for the mode prefork: a fork has what its template has loaded (`taskvisor "
                        "recycle` loads it anew), and in the mode coroutine other jobs still run the old code")
    sys.path[:0] = map(os.path.abspath, options.path)
    application = Classes(options.reload)
    return start.run(application, lambda: _load(options), options.coroutines, f"taskvisor.qless {' '.join(given)}")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m taskvisor.qless", allow_abbrev=False,
                                     description="Runs the classes of qless. Started by taskvisor.")
    parser.add_argument("-m", "--import", dest="modules", metavar="MODULE", action="append", default=[],
                        help="import this before the first job; in the mode fork all jobs share it")
    parser.add_argument("-p", "--path", metavar="DIR", action="append", default=[],
                        help="look for modules here first")
    parser.add_argument("-v", "--verbose", action="store_true", help="log records of all levels")
    parser.add_argument("--reload", action="store_true",
                        help="import a class's module anew when its file has changed")
    parser.add_argument("--async", dest="coroutines", action="store_true",
                        help="several jobs at a time, as in the mode coroutine")
    for option in _ELSEWHERE:
        parser.add_argument(option, nargs="?", action=_Elsewhere, help=argparse.SUPPRESS)
    return parser


def _load(options: argparse.Namespace) -> bool:
    shim.install()
    if options.verbose:
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    for module in options.modules:
        try:
            importlib.import_module(module)
        except Exception:
            print_failure("taskvisor.qless", module, "-p DIR names the directory that has it.")
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
