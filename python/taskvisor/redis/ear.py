"""Hears on one connection of the ends of jobs, for all that wait for them."""

from __future__ import annotations

import json
import os
import threading
import time
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable, Optional

#: The channels that say so: qless's log, and ours for canceled jobs that have no process any more.
_CHANNELS = ("ql:log", "ql:taskvisor:over")
#: Pause before the next connection.
_PAUSE_SECONDS = 0.2
#: It is looked so often whether anybody still waits.
_IDLE_SECONDS = 1.0


#: All of this process.
_ears: weakref.WeakSet[Ear] = weakref.WeakSet()


def _begin_all() -> None:
    for ear in list(_ears):
        ear._begin()


os.register_at_fork(after_in_child=_begin_all)


class Ear:
    """A thread that listens as long as anybody waits."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._begin()
        _ears.add(self)

    def _begin(self) -> None:
        """Also in a process that was forked: it has neither the thread nor those who wait, and the lock may be held."""
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._waiters: dict[int, tuple[frozenset[str], Callable[[Optional[str]], None]]] = {}
        self._hears = False

    def watch(self, jobs: Iterable[str], tell: Callable[[Optional[str]], None]) -> int:
        """Calls `tell` with each of the jobs of which it hears; with None when all have to be looked at."""
        with self._lock:
            waiter = (frozenset(jobs), tell)
            self._waiters[id(waiter[0])] = waiter
            if self._thread is None:
                self._hears = False
                self._thread = threading.Thread(target=self._listen, name="taskvisor-redis", daemon=True)
                self._thread.start()
            elif self._hears:
                tell(None)
            return id(waiter[0])

    def leave(self, number: int) -> None:
        """Ends a watch."""
        with self._lock:
            self._waiters.pop(number, None)

    def _listen(self) -> None:
        while True:
            try:
                with self._redis.pubsub(ignore_subscribe_messages=False) as channel:
                    channel.subscribe(*_CHANNELS)
                    subscribed, looked = 0, time.monotonic()
                    while True:
                        message = channel.get_message(timeout=_IDLE_SECONDS)
                        if message is not None and message["type"] == "subscribe":
                            subscribed += 1
                            if subscribed == len(_CHANNELS):
                                self._tell_all()
                        elif message is not None:
                            self._told(message)
                        # By the clock: a busy server has no second without a message.
                        if time.monotonic() - looked >= _IDLE_SECONDS:
                            looked = time.monotonic()
                            if self._is_idle():
                                return
            except Exception:
                # Whoever waits looks again when it hears again, and meets the error.
                with self._lock:
                    self._hears = False
                time.sleep(_PAUSE_SECONDS)
                if self._is_idle():
                    return

    def _is_idle(self) -> bool:
        with self._lock:
            if not self._waiters:
                self._thread = None
            return not self._waiters

    def _tell_all(self) -> None:
        with self._lock:
            self._hears = True
            for _, tell in self._waiters.values():
                tell(None)

    def _told(self, message: dict[str, Any]) -> None:
        data = message["data"]
        try:
            job = data.decode() if message["channel"] == _CHANNELS[1].encode() else json.loads(data).get("jid")
        except (ValueError, AttributeError):
            return
        with self._lock:
            for jobs, tell in self._waiters.values():
                if job in jobs:
                    tell(job)
