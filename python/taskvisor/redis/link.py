"""The connection to a Redis, and the script that runs in it: the same text as the supervisor's."""

from __future__ import annotations

import hashlib
import os
import time

from ..client import asking
from ..client.settings import settings
from ..errors import NoSuchJob, PutError, SupervisorError
from ..protocol import redis_address, redis_tls
from . import connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

#: The parts of the script, in their order: as in src/brokers/qless/script.rs.
PARTS = ("base", "free", "job", "due", "pop", "put", "hold", "complete", "cancel", "edit", "look", "queues", "recur",
         "config", "ours/base", "ours/malformed", "ours/remove", "ours/expiry", "ours/unheard", "ours/jids", "ours/holds",
         "ours/held", "ours/put", "ours/classes", "ours/settle", "ours/asked", "ours/recur", "ours/news", "ours/lists",
         "ours/edits", "ours/failures", "ours/queues", "ours/fleet", "ours/end", "end")
#: What an address begins with: as the supervisor's, of brokers with the keys of taskvisor.
_SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel")
#: How long a measured difference of the clocks holds.
_CLOCK_SECONDS = 60.0


def _clock() -> float:
    """Seconds that go on while the machine is suspended, where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def script() -> str:
    """The whole script."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "script")
    pieces = []
    for part in PARTS:
        with open(os.path.join(folder, part + ".lua"), encoding="utf-8") as file:
            pieces.append(file.read() + "\n")
    return "".join(pieces) + "return taskvisor(KEYS, ARGV)\n"


class Refused(Exception):
    """What the script says instead of doing it: a kind, and what its text needs."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(*words)
        self.words = words


class Link:
    """Calls the script. It connects when it is first used."""

    def __init__(self, url: str) -> None:
        try:
            import redis
            import redis.backoff
            import redis.retry
        except ImportError:
            raise ImportError("taskvisor.redis needs the package redis: pip install 'taskvisor[redis]'") from None
        #: The exceptions of the package redis.
        self.errors: Any = redis.exceptions
        if url.partition("://")[0] not in _SCHEMES:
            # Of RQ and others: what is put with our keys no worker of theirs would ever see.
            raise ValueError(f"jobs cannot be put straight into {redis_address.shown(url)}: it takes "
                             f"{'://, '.join(_SCHEMES)}://; elsewhere ask a supervisor, by taskvisor.Client")
        redis_address.check(url)
        plain = redis_address.plain(url)
        # `surely` tries again; were redis-py to do so as well, one try would take four times as long.
        options: dict[str, Any] = {"socket_timeout": connection.ANSWER_SECONDS,
                                   "socket_connect_timeout": connection.CONNECT_SECONDS,
                                   "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0),
                                   **redis_tls.options(url)}
        if plain.startswith("rediss://"):
            options["ssl_check_hostname"] = True  # Older versions of redis-py do not look whose certificate it is.
        self.redis: Any = (redis_address.by_sentinel(plain, options) if "+sentinel://" in plain
                           else redis.Redis.from_url(plain, **options))
        pool = self.redis.connection_pool
        redis_tls.pin(pool)
        pool.connection_class = connection.bound(pool.connection_class)
        #: The address without its password.
        self.name: str = redis_address.shown(url)
        self._script = script()
        self._sha = hashlib.sha1(self._script.encode()).hexdigest()
        #: How far the server's clock is ahead of `_clock`, and when that was measured. Written as one: no lock is needed,
        #: which a fork could leave locked.
        self._measured: Optional[tuple[float, float]] = None

    def __repr__(self) -> str:
        return self.name

    def call(self, command: str, *arguments: Any) -> Any:
        """The answer of the script. Raises `Refused`, or redis's own errors."""
        words = ("taskvisor." + command, f"{self.now():.6f}", *arguments)
        try:
            answer = self.redis.evalsha(self._sha, 0, *words)
        except self.errors.NoScriptError:
            connection.call.is_sent = False
            self.redis.script_load(self._script)
            answer = self.redis.evalsha(self._sha, 0, *words)
        if isinstance(answer, list) and answer and answer[0] == b"no":
            raise Refused([text(word) for word in answer[1:]])
        return answer

    def now(self) -> float:
        """The time by the clock of the server, in seconds: leases, delays and orders go by that."""
        measured = self._measured
        if measured is None or _clock() - measured[1] > _CLOCK_SECONDS:
            before = _clock()
            seconds, micros = self.redis.time()
            self._measured = measured = seconds + micros / 1e6 - (before + _clock()) / 2, before
        return _clock() + measured[0]

    def surely(self, what: str, act: Callable[[], Any], timeout: Optional[float] = None, doubt: str = "") -> Any:
        """Does something that may be done twice, again while the server is away, as long as `configure(patience=)` says.

        The error has the words of `doubt` if it may have been done.
        """
        patience = asking.Patience(timeout, f"{self.name} has not answered")
        is_in_doubt = False
        while True:
            connection.call.is_sent, connection.call.end = False, patience.end
            try:
                return act()
            except (self.errors.RedisError, OSError) as error:
                is_lost = isinstance(error, (self.errors.ConnectionError, self.errors.TimeoutError, OSError))
                is_lasting = not is_lost or isinstance(error, (self.errors.AuthenticationError,
                                                               self.errors.AuthorizationError))
                is_in_doubt = is_in_doubt or is_lost and connection.call.is_sent
                pause = None if is_lasting else patience.pause()
                if pause is None:
                    away = "" if is_lasting else f"; it was away for {settings.patience:g} s"
                    raise SupervisorError(f"failed to {what} {self.name}: {error}{away}{doubt if is_in_doubt else ''}"
                                          ) from None
            finally:
                connection.call.end = None
            time.sleep(pause)


def text(value: Any) -> str:
    """The text of a value of Redis."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def refusal(words: list[str], what: str, put: bool = False) -> Exception:
    """The exception for a refusal of the script, in the words of the program."""
    kind, rest = words[0], [*words[1:], "", ""]
    if kind == "job":
        return NoSuchJob(f"no job has the id '{rest[0]}'", 404)
    said = {"exists": f"the job '{rest[0]}' exists already", "kind": f"the key {rest[0]} holds a {rest[1]}, which no job has",
            "need": f"a job cannot depend on '{rest[0]}': no job has that id", "refused": rest[0]}
    why = f"{what}: {said.get(kind) or ' '.join(words)}"
    return PutError(why) if put else SupervisorError(why, 409)
