"""Puts jobs from outside of a job: over the API of the supervisor, or by the program if none listens on its socket.

It never opens a store or a broker itself. Each job gets an id here, or a word of this put's alone beside the id that it
has: so a put whose answer was lost, as over a stop and a start of the supervisor, is sent again and queues nothing twice.
"""

from __future__ import annotations

import os
import time

from ..errors import PutError, SupervisorError
from ..protocol import frames
from . import api_socket, asking, endpoint, notes
from .api_socket import count
from .settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def put(jobs: list[dict[str, Any]], at: Optional[endpoint.Endpoint] = None) -> list[str]:
    """Queues the jobs, all or none, and returns their ids: `at` that place and no other, or at the current one."""
    if at is None:
        refuse_in_tests(jobs)
    what = f"failed to put {count(jobs)}"
    may_be_known = [_make_recognizable(job) for job in jobs]
    body = frames.strict_json({"jobs": jobs}).encode()
    patience, in_doubt = asking.Patience(), False
    while True:
        try:
            place = at or endpoint.current()
            reply = asking.once("POST", "/v1/jobs", body, at=place)
            if reply.is_good:
                ids = _ids(what, place.name, reply)
                notes.warn(reply.value.get("notes"))
                return ids
            why = f"{what} at {place.name}: {reply.reason()}"
            if reply.status not in asking.PASSING:
                raise PutError(why)
            in_doubt |= reply.status != 503
        except endpoint.Nobody as error:
            why, is_shut = str(error), False
            is_kept = isinstance(place, endpoint.Unix) and place.is_kept()
            if isinstance(place, endpoint.Unix):
                from . import spool

                left = spool.find(place.path)
                if left is not None:
                    return left.put(jobs)
                is_shut = spool.is_promised(place.path)
            # The program opens the store of a stopped supervisor; nobody can open that of one elsewhere, and one whose keeper
            # lives comes again.
            is_away = is_shut or is_kept
            if at is None and not is_away and isinstance(place, endpoint.Unix) and (not in_doubt or all(may_be_known)):
                from . import program

                store = program.place(place)
                if store is not None:
                    return program.put(jobs, why, store)
                why = f"{why}, and {program.hindrance(place.path)}"
            why = f"{what}: {why}{place.hint}"
            if place.nobody_ever() and not in_doubt:
                raise PutError(why) from None
        except endpoint.Busy as error:
            why = f"{what}: {error}"
        except asking.Lost as error:
            why, in_doubt = f"{what}: {error}", True
        except SupervisorError as error:
            raise PutError(f"{what}: {error}") from None
        pause = patience.pause()
        if pause is None:
            raise PutError(why + ("; they may be queued or not" if in_doubt else ""))
        time.sleep(pause)


#: What names the socket of a supervisor.
_SOCKETS = ("TASKVISOR_SOCKET", "TASKVISOR_RUN_DIR")
#: What names another place of jobs: it counts only where nobody listens on the socket.
_PLACES = ("TASKVISOR_STATE_DIR", "TASKVISOR_BROKER", "TASKVISOR_CONFIG")


def refuse_in_tests(jobs: list[dict[str, Any]]) -> None:
    """A test that forgets to say where to has put real jobs into a real service."""
    given = os.environ.get
    # While modules of tests are imported no test runs yet; pytest 8.2 and newer names itself then, older ones load our plugin.
    is_pytest = settings.is_under_pytest or "PYTEST_CURRENT_TEST" in os.environ or "PYTEST_VERSION" in os.environ
    if not is_pytest or settings.socket is not None or settings.url is not None \
            or any(map(given, _SOCKETS)):
        return
    if given("TASKVISOR_URL"):
        return
    if not any(map(given, _PLACES)) or api_socket.is_anybody_there(api_socket.socket_path()):
        raise PutError(f"failed to put {count(jobs)}: this is a test under pytest, and would put into the default "
                       "directories; use the fixture taskvisor_inline, taskvisor_recording or taskvisor_server, or set "
                       "TASKVISOR_RUN_DIR")


def _make_recognizable(job: dict[str, Any]) -> bool:
    """Gives the job what it is known by if it is put again; false if the program cannot be told of it."""
    if "id" not in job:
        job.update(id=new_id(), exists="skip")
    elif job.get("exists") != "skip":
        job["token"] = new_id()
        return False
    return True


def new_id() -> str:
    """An id that no other job has: the time in milliseconds, and 74 random bits (UUID version 7).

    >>> len(new_id()), new_id() < new_id() or new_id()[:12] == new_id()[:12]
    (32, True)
    """
    chance = int.from_bytes(os.urandom(10), "big")
    return f"{int(time.time() * 1000):012x}7{chance >> 68:03x}{chance >> 64 & 3 | 8:x}{chance & 2**60 - 1:015x}"


def _ids(what: str, path: str, reply: asking.Reply) -> list[str]:
    try:
        return [str(id) for id in reply.value["ids"]]
    except (KeyError, TypeError):
        raise PutError(f"{what} at {path}: answer {reply.status}: {reply.text[:200]!r}") from None
