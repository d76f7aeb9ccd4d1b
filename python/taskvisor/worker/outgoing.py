"""Sends the frames of a worker of mode coroutine: collected in a turn of the event loop, written in few system
calls."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque
from typing import Any, Callable, Optional, Union

from .process import identity

#: In bytes. With more, `send` waits until the supervisor has read.
_LONGEST_BACKLOG = 4 * 1024 * 1024
#: Frames are joined up to about this many bytes for one system call.
_PIECE = 64 * 1024


class _Lock:
    """Reentrant: a signal handler or a finaliser that prints may run in the middle of `send`.

    Its holder can have another thread send while it waits for that thread.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        #: The thread that sends for the holder.
        self.deputy: Optional[int] = None
        #: Whether it may send no more.
        self.is_muted = False

    def __enter__(self) -> None:
        if threading.get_ident() != self.deputy:
            self._lock.acquire()
        elif self.is_muted:
            sys.exit()  # The end of that thread.

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() != self.deputy:
            self._lock.release()


class Outgoing:
    """A queue of frames that any thread may add to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, on_gone: Callable[[str], None]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._loop_thread = threading.get_ident()
        #: Who holds it is the only one who sends.
        self.lock: _Lock = _Lock()
        self._frames: deque[Union[bytes, memoryview]] = deque()
        self._bytes = 0
        self._scheduled = False
        self._watching = False
        self._gone = False
        self._identity = identity(descriptor)
        #: Whether this turn of the loop has checked that the descriptor is still the channel.
        self._looked = False

    def send(self, line: bytes) -> None:
        """Sends the frame with the others of this turn."""
        with self.lock:
            if self._gone:
                return
            self._frames.append(line)
            self._bytes += len(line)
            if self._bytes > _LONGEST_BACKLOG:
                self._write_all()
            wake = not self._scheduled
            self._scheduled = True
        if wake:
            here = threading.get_ident() == self._loop_thread
            (self._loop.call_soon if here else self._loop.call_soon_threadsafe)(self._write_some)

    def send_now(self, line: bytes) -> None:
        """Sends the frame with all before it; what the socket does not take now is sent as soon as it can."""
        with self.lock:
            if self._frames or self._gone or not self._is_whole_in_this_turn():
                self.send(line)
                self._write()
                return
            try:
                written = os.write(self._descriptor, line)
            except OSError:
                written = 0
            if written < len(line):
                self.send(line[written:])

    def drain(self) -> None:
        """Writes all frames before it returns."""
        with self.lock:
            self._write_all()

    def _write_some(self) -> None:
        with self.lock:
            self._scheduled = False
            done = self._write()
            if done and self._watching:
                self._watching = False
                self._loop.remove_writer(self._descriptor)
            elif not done and not self._watching:
                self._watching = True
                self._loop.add_writer(self._descriptor, self._write_some)

    def _write_all(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while not self._write():
            poll.poll()

    def _is_whole(self) -> bool:
        return identity(self._descriptor) == self._identity

    def _is_whole_in_this_turn(self) -> bool:
        """Checks the channel once in a turn of the loop, as a check costs more than writing a line. Threads have no
        turns."""
        if threading.get_ident() != self._loop_thread:
            return self._is_whole()
        if not self._looked and self._is_whole():
            self._looked = True
            self._loop.call_soon(self._end_turn)
        return self._looked

    def _end_turn(self) -> None:
        self._looked = False

    def _write(self) -> bool:
        """Writes as much as the socket takes. True if that was all."""
        while self._frames and not self._gone:
            self._join_first()
            data = self._frames[0]
            try:
                if not self._is_whole():
                    raise OSError(f"descriptor {self._descriptor} was closed by a job")
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                return False
            except OSError as error:
                self._gone = True
                self._on_gone(str(error))
                break
            self._bytes -= written
            if written < len(data):
                # A view: the rest of a long frame is not copied for each piece.
                self._frames[0] = memoryview(data)[written:]
            else:
                self._frames.popleft()
        return True

    def _join_first(self) -> None:
        """Joins the first frames to a piece worth a system call. The others stay as they are: to join them all at each
        attempt would copy the whole backlog for each line."""
        first = self._frames[0]
        if len(self._frames) == 1 or len(first) >= _PIECE:
            return
        pieces: list[Union[bytes, memoryview]] = []
        size = 0
        while self._frames and size < _PIECE:
            piece = self._frames.popleft()
            pieces.append(piece)
            size += len(piece)
        self._frames.appendleft(b"".join(pieces))
