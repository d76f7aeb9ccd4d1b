"""Runs the program `taskvisor`: its `put` reaches the store of a service that is stopped, its `job logs` reads files.

Imported only when it is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from ..errors import PutError, SupervisorError
from ..protocol import frames
from . import api_socket, endpoint, notes
from .api_socket import count
from .settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional


def path() -> Optional[str]:
    """Where the program is: in PATH, else beside this package, as in an environment that is not activated."""
    from .. import installed

    return shutil.which("taskvisor") or installed.program()


def _lacks() -> str:
    from .. import installed

    return installed.lacks()


def logs(job: str, options: Sequence[str] = ()) -> str:
    """What the job has printed and logged, as far as the options select it."""
    program = path()
    if not isinstance(endpoint.current(), endpoint.Unix):
        raise SupervisorError(f"failed to read the output of {job}: it is in files of the supervisor's machine; read it "
                              "there, or from where TASKVISOR_URL and configure(url=...) name no other")
    if program is None:
        raise SupervisorError(f"failed to read the output of {job}: {_lacks()}")
    environment = _environment()
    if environment is None:
        raise SupervisorError(f"failed to read the output of {job}: {_cannot_be_told()}")
    if settings.socket is not None:
        environment.update(_state_dir(settings.socket))
    done = subprocess.run([program, "job", "logs", *options, "--", job], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env=environment)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise SupervisorError(f"failed to read the output of {job}: {program} ended with {done.returncode}: {said}")
    return done.stdout.decode("utf-8", "replace")


#: What names a place of jobs: then the program may make a store there. In a job it never does.
_NAMED = ("TASKVISOR_STATE_DIR", "TASKVISOR_BROKER", "TASKVISOR_CONFIG", "TASKVISOR_SOCKET", "TASKVISOR_URL")


#: What would lead the program past the socket that `configure` names.
_OTHERS = ("TASKVISOR_RUN_DIR", "TASKVISOR_STATE_DIR", "TASKVISOR_BROKER", "TASKVISOR_CONFIG", "TASKVISOR_URL")


def _environment() -> Optional[dict[str, str]]:
    """The environment of the program, with the socket that `configure` names, as in the environment of a job.

    None if that is not possible: the program finds a socket by its directory, under the name `ctl.sock`.
    """
    environment = dict(os.environ)
    if settings.socket is not None:
        socket = os.path.abspath(settings.socket)
        if os.path.basename(socket) != "ctl.sock":
            return None
        for name in _OTHERS:
            environment.pop(name, None)
        environment["TASKVISOR_SOCKET"] = socket
    return environment


def _state_dir(socket: str) -> dict[str, str]:
    """Where the supervisor of this socket keeps the output of jobs, as it has noted in its lock."""
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(socket)), "lock"), "rb") as file:
            _, _, directory = os.fsdecode(file.read()).partition("\n")
    except OSError:
        return {}
    return {"TASKVISOR_STATE_DIR": directory.strip()} if os.path.isabs(directory) else {}


def _cannot_be_told() -> str:
    return (f"the program taskvisor cannot be told of the socket {settings.socket}, which is not called ctl.sock; give "
            "configure(socket=...) the ctl.sock of a run directory")


def place(at: endpoint.Unix) -> Optional[dict[str, str]]:
    """What to add to the environment of the program, so that it finds the jobs of the supervisor that was there.

    None if there is no program, or if they cannot be reached without a supervisor: in memory, or where only its settings
    say.
    """
    if path() is None or _environment() is None:
        return None
    # With `configure(socket=...)` only the jobs of that supervisor: the environment may name those of another.
    note = _note(at.path)
    if note is not None:
        return {"TASKVISOR_BROKER": note["broker"]} if _is_reached(note) else None
    if settings.socket is None and (at.nobody_ever() or any(map(os.environ.get, _NAMED))):
        return {}
    store = _store(at.path)
    return None if store is None else {"TASKVISOR_BROKER": f"sqlite:{store}"}


def _note(socket: str) -> Optional[dict[str, Any]]:
    """What the last supervisor has noted about its broker, as the program reads it; None if the environment names one."""
    given = os.environ.get
    directory = os.path.dirname(os.path.abspath(socket))
    if settings.socket is None and any(map(given, _NAMED)):
        state = given("TASKVISOR_STATE_DIR")
        if not state or given("TASKVISOR_BROKER") or given("TASKVISOR_CONFIG"):
            return None
        directory = state
    try:
        with open(os.path.join(directory, "broker"), encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid() and not api_socket.trusts(directory, os.lstat(directory).st_uid):
                return None
            note = json.load(file)
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) and isinstance(note.get("broker"), str) else None


def _is_reached(note: dict[str, Any]) -> bool:
    """Whether the broker is reached without its supervisor and without a secret.

    >>> _is_reached({"broker": "redis://h/1", "whole": True}), _is_reached({"broker": "redis://h/1", "whole": False})
    (True, False)
    >>> _is_reached({"broker": "memory:", "whole": True})
    False
    """
    return note.get("whole") is True and note["broker"] != "memory:"


def _store(socket: str) -> Optional[str]:
    """The store that the last supervisor used, as it has noted it."""
    try:
        with open(os.path.join(os.path.dirname(socket), "store"), "rb") as file:
            store = os.fsdecode(file.read())
    except OSError:
        return None
    return store if os.path.exists(store) else None


def hindrance(socket: str) -> str:
    """Why the program cannot be used."""
    if path() is None:
        return _lacks()
    if _environment() is None:
        return _cannot_be_told()
    note = _note(socket)
    if note is not None and note.get("settings"):
        return f"its jobs are in {note['broker']}, whose whole URL holds a secret: set TASKVISOR_CONFIG={note['settings']}"
    return f"{os.path.dirname(socket)} does not say where the jobs are without it"


def put(jobs: list[dict[str, Any]], before: str, place: dict[str, str]) -> list[str]:
    """Queues the jobs and returns their ids. `before` says in errors why the socket could not be used."""
    program = path()
    assert program is not None, "its caller has looked"
    environment = {**(_environment() or os.environ), **place}
    for name in (job[key] for job in jobs for key in ("queue", "class")):
        # The program would take such a name for an option, and print its help for an id.
        if name.startswith("-"):
            raise PutError(f"failed to put {count(jobs)}: {before}, and {name!r} cannot be given to {program} put, "
                           "as it begins with '-'; start the supervisor")
    if not place:
        _must_have_a_store(program, jobs, before)
    # One process for each job: the program has no batches with different classes, so this is not all or none.
    ids: list[str] = []
    for job in jobs:
        done = subprocess.run(_command(program, job), input=frames.strict_json(job["data"]).encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=environment)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            queued = f" after {len(ids)} that are queued" if ids else ""
            raise PutError(f"failed to put {count(jobs)}{queued}: {before}, and {program} put ended with "
                           f"{done.returncode}: {said}")
        ids.append(done.stdout.decode().strip())
        notes.warn(notes.of_program(job["queue"], done.stderr.decode("utf-8", "replace")))
    return ids


def _must_have_a_store(path: str, jobs: list[dict[str, Any]], before: str) -> None:
    """Refuses to put into a new store in the default directory: the supervisor that comes may have another."""
    if any(map(os.environ.get, _NAMED)):
        return
    looked = subprocess.run([path, "queue", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if looked.returncode != 0:
        said = looked.stderr.decode("utf-8", "replace").strip()
        raise PutError(f"failed to put {count(jobs)}: {before}, and a new store is not made: {path} queue list ended with "
                       f"{looked.returncode}: {said}; start the supervisor, or name the place of its jobs by "
                       "TASKVISOR_STATE_DIR or TASKVISOR_BROKER")


def _command(program: str, job: dict[str, Any]) -> list[str]:
    """The command line that puts a job, with its data on stdin.

    >>> _command("taskvisor", {"queue": "q", "class": "c", "data": 1, "delay": 10, "tags": ["x"]})
    ['taskvisor', 'put', 'q', 'c', '-', '--delay=10s', '--tag=x']
    """
    command = [program, "put", job["queue"], job["class"], "-"]
    for name, option in (("priority", "priority"), ("retries", "retries"), ("id", "jid"), ("exists", "exists")):
        if name in job:
            command.append(f"--{option}={job[name]}")
    for name, option in (("delay", "delay"), ("expires", "expires"), ("time_limit", "time-limit")):
        if name in job:
            command.append(f"--{option}={_unit(job[name])}")
    command += [f"--depends={id}" for id in job.get("depends", ())]
    return command + [f"--tag={tag}" for tag in job.get("tags", ())]


def _unit(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{max(1, round(seconds * 1000))}ms"
