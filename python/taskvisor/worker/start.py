"""Starts a worker: reads its environment, loads the application, says hello, and runs the loop of the mode."""

from __future__ import annotations

import faulthandler
import importlib
import logging
import os
import signal
import sys

from ..client import registry
from ..protocol.frames import frame
from ..version import VERSION
from . import dump_later, stacks, watched
from .channel import Channel, Closed
from .loading import print_failure
from .process import give_up, identity, is_template
from .termination import Termination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Optional

    from .application import Application
    from .inherited import Inherited

_PROTOCOL = 1
#: What to do about a module that is not found.
_ELSEWHERE = ("If it is in another directory, start with --cwd DIR, or give the pool a cwd: in the settings; or set "
              "PYTHONPATH.")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Loads the modules, says hello, and runs jobs until the supervisor stops the worker. Returns the exit status."""
    modules, coroutines = _parse(sys.argv[1:] if arguments is None else arguments)
    return run(registry, lambda: _load(modules), coroutines, f"taskvisor.worker {' '.join(modules)}")


def run(application: Application, load: Callable[[], bool], coroutines: bool, command: str) -> int:
    """Loads the application and runs its jobs. `command` is the command to show to people who start it by hand."""
    # While the application is loaded no job can be lost. Each runtime installs its own handler later.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    descriptor = _channel_descriptor(command)
    concurrent = coroutines or os.environ.get("TASKVISOR_MODE") == "coroutine"
    inherited = _look_at_forks()
    _prepare_streams()
    # Shows every thread at a crash. Settings of the application or PYTHONFAULTHANDLER are kept.
    if not faulthandler.is_enabled():
        faulthandler.enable(2)
    stacks.offer()
    dump_later.watch()
    watched.watch()
    if concurrent:
        from . import streams

        streams.install()
    if not load():
        return 1
    stacks.withdraw_if_replaced()
    _prepare_logging()
    warnings = _take_over_schedules(application)
    if concurrent:
        from . import coroutine

        return coroutine.serve(application, descriptor, _concurrency(), hello(application, False, warnings))
    return _serve_one_at_a_time(application, descriptor, inherited, warnings)


def hello(application: Application, template: bool, further: Sequence[str] = ()) -> bytes:
    """The first frames."""
    fields: dict[str, Any] = {"protocol": _PROTOCOL, "sdk": f"taskvisor-python {VERSION}"}
    classes = application.hello_classes()
    if classes is not None:
        fields["classes"] = classes
    if template:
        fields["template"] = True
    warnings = [frame("warning", {"text": text}) for text in (*getattr(application, "warnings", ()), *further)]
    return frame("hello", fields) + frame("ready", {}) + b"".join(warnings)


def _look_at_forks() -> Optional[Inherited]:
    if not is_template():
        return None
    if sys.version_info < (3, 8):
        # The fork tells threads by ids that Python 3.7 does not know.
        give_up("the mode fork needs Python 3.8 or newer; use -m prefork")
    from .inherited import Inherited

    return Inherited()


def is_first(worker: str) -> bool:
    """Whether this is the worker of its pool that takes schedules over: the template, or the first.

    >>> is_first("mail.1#7"), is_first("mail.0#1"), is_first("mail.11#7"), is_first("")
    (True, True, False, False)
    """
    return worker.partition("#")[0].rpartition(".")[2] in ("0", "1")


def _take_over_schedules(application: Application) -> list[str]:
    """Has the supervisor know what recurs by the code. Returns what is wrong; ends the process if the code is."""
    find = getattr(application, "schedules", None)
    if find is None or not os.environ.get("TASKVISOR_SOCKET") or not is_first(os.environ.get("TASKVISOR_WORKER", "")):
        return []
    from . import schedules

    try:
        return schedules.take_over(find())
    except schedules.Wrong as error:
        give_up(str(error))


def _serve_one_at_a_time(application: Application, descriptor: int, inherited: Optional[Inherited],
                         warnings: Sequence[str]) -> int:
    termination = Termination()
    termination.install()
    try:
        from . import prefork

        prefork.prepare(application)
        if inherited is None:
            worker = prefork.Worker(application, descriptor, termination)
            worker.channel.write(hello(application, False, warnings))
            return worker.serve()
        try:
            from .template import Template
        except ImportError as error:
            give_up(f"the mode fork needs a Python with ctypes ({error}); use -m prefork")
        channel = Channel(descriptor, termination)
        fork_descriptor = int(os.environ["TASKVISOR_FORK_FD"])
        template = Template(application, descriptor, fork_descriptor, channel, termination, inherited)
        channel.write(hello(application, True, warnings))
        return template.serve()
    except Closed as error:
        give_up(str(error))


def _parse(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The modules, and whether their jobs share an event loop."""
    modules = [argument for argument in arguments if argument != "--async"]
    if modules and not any(module.startswith("-") for module in modules):
        return modules, len(modules) < len(arguments)
    return _parse_with_help(arguments)


def _parse_with_help(arguments: Sequence[str]) -> tuple[list[str], bool]:
    import argparse

    parser = argparse.ArgumentParser(prog="python3 -m taskvisor.worker",
                                     description="Runs the jobs of some modules. Started by taskvisor.")
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="a module with functions that are jobs")
    parser.add_argument("--async", dest="coroutines", action="store_true",
                        help="several jobs at a time in one event loop, as in the mode coroutine")
    options = parser.parse_args(arguments)
    return options.modules, options.coroutines


def _channel_descriptor(command: str) -> int:
    named = os.environ.get("TASKVISOR_FD")
    if named is None:
        give_up("a worker is started by taskvisor, not by hand; try\n"
                f"    taskvisor start -w 2 -m prefork -- python3 -m {command}")
    protocol = os.environ.get("TASKVISOR_PROTOCOL", str(_PROTOCOL))
    if protocol != str(_PROTOCOL):
        give_up(f"the supervisor speaks protocol {protocol}, this package {_PROTOCOL}: install the package that "
                "belongs to the supervisor")
    if not named.isdecimal() or identity(int(named)) is None:
        give_up(f"TASKVISOR_FD is {named!r}, which is no open descriptor")
    os.set_inheritable(int(named), False)
    return int(named)


def _concurrency() -> int:
    named = os.environ.get("TASKVISOR_CONCURRENCY", "1")
    if not named.isdecimal() or int(named) < 1:
        give_up(f"TASKVISOR_CONCURRENCY is {named!r}, which is no number from 1 on")
    return int(named)


def _prepare_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        # Lines must be in the log when a job is killed, and no character may make a print fail.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, errors="backslashreplace")


def _load(modules: Sequence[str]) -> bool:
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:
            print_failure("taskvisor.worker", module, _ELSEWHERE)
            return False
    if not registry.functions:
        print(f"taskvisor.worker: no jobs in {', '.join(modules)}: decorate a function with @taskvisor.job",
              file=sys.stderr)
    return bool(registry.functions)


def _prepare_logging() -> None:
    """Sends log records to the job's log, unless the application has configured logging."""
    if not logging.getLogger().handlers:
        stream: Any = _CurrentStderr()
        logging.basicConfig(stream=stream, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        # The supervisor has the trace of a failure already; it is for handlers of the application.
        logging.getLogger().handlers[0].addFilter(lambda record: record.name != "taskvisor.jobs")


class _CurrentStderr:
    """The present `sys.stderr`: a handler of `logging` keeps the stream that it gets first."""

    @staticmethod
    def write(text: str) -> None:
        """Writes to it, if there is one."""
        if sys.stderr is not None:
            sys.stderr.write(text)

    @staticmethod
    def flush() -> None:
        """Flushes it, if there is one."""
        if sys.stderr is not None:
            sys.stderr.flush()
