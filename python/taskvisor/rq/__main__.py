"""The program that the supervisor starts: ``python3 -m taskvisor.rq [-u URL] [-m MODULE]… [-P PATH]…``."""

from __future__ import annotations

import argparse
import importlib
import logging.config
import os
import sys

from ..worker import start
from ..worker.loading import print_failure
from . import django_app
from .installed import Installed
from .jobs import Jobs
from .run import Setup
from .settings import HINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Says hello, and runs jobs until the supervisor stops the worker. Returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    if os.environ.get("TASKVISOR_MODE") == "coroutine":
        _parser().error("jobs of RQ run one at a time in a process: use the mode fork or prefork")
    # RQ puts the directory in which it is started on its path.
    sys.path[:0] = map(os.path.abspath, options.path or ["."])
    jobs = Jobs()
    return start.run(jobs, lambda: _load(options, jobs), False, f"taskvisor.rq {' '.join(given)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m taskvisor.rq", allow_abbrev=False,
                                     description="Runs the jobs of RQ. Started by taskvisor.")

    def option(*names: str, variable: str = "", default: Any = None, **more: Any) -> None:
        parser.add_argument(*names, default=os.environ.get(variable) or default, **more)

    option("-u", "--url", variable="RQ_REDIS_URL", metavar="URL",
           help="the Redis for jobs that ask for it; better in RQ_REDIS_URL, which nobody else sees")
    option("-c", "--config", metavar="MODULE", help="a config module of RQ, imported first; its DICT_CONFIG sets up logging")
    option("-m", "--import", dest="modules", metavar="MODULE", action="append", default=[],
           help="import this before the first job; in the mode fork all jobs share it")
    option("--preload", choices=["auto"],
           help="in the mode fork, import the modules of functions that have returned for all jobs that follow")
    option("-P", "--path", metavar="DIR", action="append", help="look for modules here first")
    option("-S", "--serializer", metavar="NAME", help="json, pickle or the path of a class")
    for flags, of, default in ((["-w"], "worker", "rq.Worker"), (["-j"], "job", "rq.job.Job"), ([], "queue", "rq.Queue"),
                               ([], "connection", None)):
        option(*flags, f"--{of}-class", variable=f"RQ_{of.upper()}_CLASS", metavar="CLASS", default=default,
               help=f"the class of {of}s")
    option("--exception-handler", dest="handlers", metavar="FUNCTION", action="append", default=[],
           help="is called with a job that has failed; may be given several times")
    option("--results-ttl", metavar="SECONDS", type=int, default=500, help="how long results are kept by default")
    parser.add_argument("-d", "--disable-default-exception-handler", action="store_true",
                        help="keep nothing of failures: the handlers do")
    parser.add_argument("--native", action="store_true", help="let RQ's own code end every job")
    return parser


def _load(options: argparse.Namespace, jobs: Jobs) -> bool:
    name = "rq"
    try:
        installed = Installed()
        name = os.environ.get(django_app.VARIABLE, name)
        has_django = django_app.set_up()
        if options.config:
            name = options.config
            logs = getattr(importlib.import_module(name), "DICT_CONFIG", None)
            if logs:
                logging.config.dictConfig(logs)
            # The module may be what names Django's settings.
            has_django = django_app.set_up()
        for name in options.modules:
            importlib.import_module(name)
        if has_django:
            name = "RQ_EXCEPTION_HANDLERS"
            options.handlers = options.handlers or list(django_app.setting(name) or [])
        name = "what the options name"
        jobs.start_up(Setup(installed, options), options.preload == "auto")
        if has_django:
            django_app.close_connections()
    except Exception:
        print_failure("taskvisor.rq", name, HINT)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
