"""A stand-in for `import qless` if qless-py is not installed. It has only the names that code of jobs imports."""

from __future__ import annotations

import importlib.util
import logging
import sys
import types

from . import decorators, exceptions
from .base import BaseJob
from .job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Client:
    """Not available: this package has no connection to Redis."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        raise exceptions.QlessException("qless.Client: this is taskvisor's stand-in for qless-py, which is not "
                                        "installed. Inside of a job use job.client; for a connection of your own "
                                        "install qless-py or reqless")


def install() -> bool:
    """Makes `import qless` find the stand-in, in this process only, unless qless-py is installed."""
    if "qless" in sys.modules or importlib.util.find_spec("qless") is not None:
        return False
    _module("qless", "taskvisor's stand-in for qless-py.", retry=decorators.retry, Client=Client, Job=Job,
            QlessException=exceptions.QlessException, LostLockException=exceptions.LostLockException,
            logger=logging.getLogger("qless"), __path__=[])
    for name, of in (("decorators", decorators), ("exceptions", exceptions)):
        _module(f"qless.{name}", of.__doc__, **{key: value for key, value in vars(of).items() if key[0] != "_"})
    _module("qless.job", Job.__doc__, Job=Job, BaseJob=BaseJob)
    return True


def _module(name: str, doc: Any, **contents: Any) -> None:
    module = types.ModuleType(name, doc)
    vars(module).update(contents)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
