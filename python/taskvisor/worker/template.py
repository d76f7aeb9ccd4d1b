"""The loop of mode fork's template: it has loaded the application, and forks a child for each job.

It never runs a job itself.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import struct
import sys
import traceback

from ..protocol.frames import decode, frame
from . import forking, stacks
from .channel import Channel, Closed, EndOfFile
from .prefork import Worker
from .process import OUT_OF_THE_WAY, flush_streams, give_up, out_of_the_way, print_at_once
from .termination import Termination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Optional

    from .application import Application
    from .inherited import Inherited
    from .preload import Preload

_NUMBER_BYTES = 8
#: The child's channel, stdout and stderr.
_ENDS = 3
_INT_BYTES = struct.calcsize("i")
#: Room for one descriptor more than expected.
_ANCILLARY_BYTES = socket.CMSG_SPACE((_ENDS + 2) * _INT_BYTES)


class Template:
    """Forks children at the keeper's requests."""

    def __init__(self, application: Application, descriptor: int, fork_descriptor: int, channel: Channel,
                 termination: Termination, inherited: Inherited) -> None:
        self._application = application
        self._descriptor = descriptor
        self._channel = channel
        self._termination = termination
        self._keeper = os.getppid()
        self._orders = socket.socket(fileno=fork_descriptor)
        self._orders.setblocking(True)
        self._orders.set_inheritable(False)
        # Otherwise the second of two forks would become our child again.
        forking.set_subreaper(False)
        # Made at the first fork, when the threads and descriptors of the application are there, and shared by all.
        self._worker: Optional[Worker] = None
        #: Until the first fork has been checked.
        self._inherited: Optional[Inherited] = inherited
        self._preload: Optional[Preload] = getattr(application, "preload", None)
        self._nothing = out_of_the_way(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def serve(self) -> int:
        """Forks until the supervisor stops the template, or what it has imported has changed on disk."""
        orders, termination, preload = self._orders.fileno(), self._termination, self._preload
        own = [orders, self._descriptor, termination.wake]
        while True:
            poll = select.poll()
            for descriptor in own if preload is None else own + preload.descriptors():
                poll.register(descriptor, select.POLLIN)
            termination.begin_wait()
            ready = {descriptor for descriptor, _ in poll.poll(None if preload is None else preload.patience())}
            termination.end_wait()
            if termination.wake in ready:
                termination.drain()
            if self._descriptor in ready and self._told_to_stop():
                return 0
            if preload is not None and preload.is_outdated():
                why = "code that this template has imported for its jobs has changed: a new template imports it again"
                print_at_once(f"taskvisor.worker: {why}\n")
                # Not a crash, after which the next one would wait.
                self._channel.write(frame("leaving", {"why": why}))
                return 0
            if orders in ready and not self._obey():
                return 0
            # Nothing is ready when a trial has had its time.
            if preload is not None and not (ready and ready.issubset(own)):
                self._import_more(preload)

    def _import_more(self, preload: Preload) -> None:
        known = len(preload.modules)
        self._warn(preload.turn((self._descriptor, self._orders.fileno())))
        if len(preload.modules) != known:
            self._channel.write(frame("preloaded", {"modules": preload.modules}))
            _share()

    def _told_to_stop(self) -> bool:
        try:
            for line in self._channel.read_lines():
                frames_of_line = decode(line)
                if "shutdown" in frames_of_line:
                    return True
                if "ping" in frames_of_line:
                    self._channel.write(frame("pong", {}))
        except EndOfFile:
            return True
        except Closed as error:
            give_up(str(error))
        return False

    def _obey(self) -> bool:
        """Forks one child. False at the end of file."""
        number, ancillary, _, _ = self._orders.recvmsg(64, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        if not number:
            return False
        descriptors: tuple[int, ...] = ()
        for _, kind, packed in ancillary:
            if kind == socket.SCM_RIGHTS:
                descriptors += struct.unpack(f"{len(packed) // _INT_BYTES}i", packed)
        if len(number) != _NUMBER_BYTES or len(descriptors) not in (_ENDS, _ENDS + 1):
            give_up(f"a packet of {len(number)} bytes with {len(descriptors)} descriptors on descriptor "
                    f"{self._orders.fileno()}: 8 bytes with 3 or 4 were expected")
        if min(descriptors) < OUT_OF_THE_WAY:
            descriptors = tuple(map(out_of_the_way, descriptors))
        try:
            # The fourth is the child's cgroup, if it has one.
            self._fork(number, descriptors[:_ENDS], descriptors[_ENDS] if len(descriptors) > _ENDS else None)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _fork(self, number: bytes, descriptors: tuple[int, ...], cgroup: Optional[int] = None) -> None:
        flush_streams()
        worker = self._worker
        if worker is None:
            worker = self._worker = Worker(self._application, self._descriptor, self._termination, jobs=1)
            _share()
        if self._inherited is not None:
            self._inherited.arm()
        # Blocking is a property of the socket, so it holds for the child too.
        os.set_blocking(descriptors[0], True)
        try:
            child = forking.fork_sibling(self._keeper, cgroup)
        except OSError as error:
            self._orders.send(number + (error.errno or 0).to_bytes(4, "little"))
            return
        if child == 0:
            self._be_child(worker, number, descriptors, cgroup)
        self._inherited = None

    def _be_child(self, worker: Worker, number: bytes, descriptors: tuple[int, ...],
                  cgroup: Optional[int]) -> NoReturn:
        status = 1
        try:
            # The supervisor does not know this process yet: a SIGTERM until here was meant for the template.
            self._termination.requested = False
            self._orders.send(number, socket.MSG_NOSIGNAL)
            if self._inherited is not None:
                # What the hooks of the application have replaced is only visible here. The warning is sent in the
                # template's name.
                self._warn(self._inherited.warning({descriptors[0], self._descriptor, self._orders.fileno()}))
            os.close(self._orders.detach())
            if cgroup is not None:
                os.close(cgroup)
            # The template's channel is replaced below. Its number must not be free before that, or the pipe would take
            # it.
            self._termination.renew()
            self._settle(descriptors)
            stacks.offer_anew()
            _reseed()
            status = worker.serve()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            flush_streams()
        except BaseException:
            traceback.print_exc()
            flush_streams()
        # Output of the job was flushed before its end was reported.
        os._exit(status)

    def _warn(self, text: Optional[str]) -> None:
        if text is not None:
            self._channel.write(frame("warning", {"text": text}))

    def _settle(self, descriptors: tuple[int, ...]) -> None:
        os.setsid()
        forking.die_with_parent()
        if os.getppid() != self._keeper:
            os._exit(1)
        forking.set_subreaper(True)
        channel, stdout, stderr = descriptors
        os.dup2(channel, self._descriptor, False)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.dup2(self._nothing, 0)
        for descriptor in descriptors:
            os.close(descriptor)
        os.close(self._nothing)


def _share() -> None:
    """Lets forks share what there is: a child that never looks at old objects does not copy their pages."""
    gc.collect()
    forking.give_back()
    gc.freeze()


def _reseed() -> None:
    """Seeds numpy's global generator; `random` does this by itself at a fork."""
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
