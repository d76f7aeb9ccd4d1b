"""Queueing jobs from outside of a job: over the API socket, else by the program `taskvisor`."""

from __future__ import annotations

import json
import os
import socket
import struct

from . import frames
from .client import class_settings
from .errors import PutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What the API takes as it stands.
_PLAIN = ("queue", "class", "id", "exists", "priority", "tags", "depends")
_PATIENCE_SECONDS = 60.0
#: The defaults of the supervisor for classes.
_RETRY = {"retry_delay": 1.0, "retry_cap": 900.0}


def put(jobs: list[dict[str, Any]]) -> list[str]:
    """Queues the jobs and returns their ids, by the first way that is open."""
    path = socket_path()
    try:
        connection = _connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
        return _put_by_program(jobs, f"nobody listens on {path} ({error.strerror})")
    except OSError as error:
        raise PutError(f"failed to put {_count(jobs)}: cannot connect to {path}: {error.strerror}") from None
    with connection:
        return _put_by_socket(connection, path, jobs)


def socket_path() -> str:
    """The API socket of the supervisor that the environment names.

    >>> os.environ["TASKVISOR_SOCKET"] = "/run/mine.sock"
    >>> socket_path()
    '/run/mine.sock'
    >>> del os.environ["TASKVISOR_SOCKET"]
    """
    environment = os.environ
    if environment.get("TASKVISOR_SOCKET"):
        return environment["TASKVISOR_SOCKET"]
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if environment.get("TASKVISOR_RUN_DIR"):
        directory = environment["TASKVISOR_RUN_DIR"]
    elif os.geteuid() == 0:
        directory = "/run/taskvisor"
    elif os.path.isabs(runtime):
        directory = os.path.join(runtime, "taskvisor")
    else:
        directory = f"/tmp/taskvisor-{os.geteuid()}"
    return os.path.join(directory, "ctl.sock")


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(path)
        _trust(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _trust(connection: socket.socket, path: str) -> None:
    """Refuses a listener of another user before it is told a word: it may have made the socket before we did.

    Root trusts the owner of the directory as well.
    """
    size = struct.calcsize("3i")
    _, theirs, _ = struct.unpack("3I", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    own = os.geteuid()
    if theirs in (own, 0) or (own == 0 and theirs == os.lstat(os.path.dirname(path) or ".").st_uid):
        return
    raise PutError(f"the socket {path} belongs to uid {theirs}: what listens there is not yours, and was told nothing; "
                   "set TASKVISOR_RUN_DIR to a directory of your own")


def _put_by_socket(connection: socket.socket, path: str, jobs: list[dict[str, Any]]) -> list[str]:
    import http.client

    client = http.client.HTTPConnection("taskvisor")
    client.sock = connection
    body = frames.strict_json({"jobs": [_api_job(job) for job in jobs]}).encode()
    try:
        client.request("POST", "/v1/jobs", body, {"Content-Type": "application/json", "Connection": "close"})
        response = client.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise PutError(f"failed to put {_count(jobs)}: {path} gave no answer ({error!r}); "
                       "they may be queued or not") from None
    try:
        answer = json.loads(text)
        if 200 <= response.status < 300:
            return [str(id) for id in answer["ids"]]
        reason = answer["error"]
        hint = f" (hint: {answer['hint']})" if answer.get("hint") else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        reason, hint = f"answer {response.status}: {text[:200]!r}", ""
    raise PutError(f"failed to put {_count(jobs)} at {path}: {reason}{hint}")


def _api_job(job: dict[str, Any]) -> dict[str, Any]:
    """A job of `call put` as the API takes it.

    >>> _api_job({"queue": "q", "class": "c", "data": [1], "delay": 1.5})["delay"]
    {'secs': 1, 'nanos': 500000000}
    """
    made: dict[str, Any] = {name: job[name] for name in _PLAIN if name in job}
    made["payload"] = {"data": frames.strict_json(job["data"])}
    for name in ("delay", "time_limit"):
        if name in job:
            made[name] = _duration(job[name])
    if "retries" in job:
        # The API takes all three or none.
        settings = {**_RETRY, **class_settings.get(job["class"], {})}
        made["retry"] = {"retries": job["retries"], "delay": _duration(settings["retry_delay"]),
                         "cap": _duration(settings["retry_cap"])}
    return made


def _duration(seconds: float) -> dict[str, int]:
    secs, nanos = divmod(round(seconds * 1_000_000_000), 1_000_000_000)
    return {"secs": secs, "nanos": nanos}


def _put_by_program(jobs: list[dict[str, Any]], before: str) -> list[str]:
    import shutil
    import subprocess

    program = shutil.which("taskvisor")
    if program is None:
        raise PutError(f"failed to put {_count(jobs)}: {before}, and there is no program taskvisor in PATH; "
                       "start the supervisor, set TASKVISOR_RUN_DIR to its run directory, or install taskvisor")
    for name in (job[key] for job in jobs for key in ("queue", "class")):
        # The program would take it for an option, and print its help for an id.
        if name.startswith("-"):
            raise PutError(f"failed to put {_count(jobs)}: {before}, and {name!r} cannot be given to {program} put, "
                           "as it begins with '-'; start the supervisor")
    # One process for each: the program knows no batches of classes, so here it is not all or none.
    ids: list[str] = []
    for job in jobs:
        done = subprocess.run(_command(program, job), input=frames.strict_json(job["data"]).encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            queued = f" after {len(ids)} that are queued" if ids else ""
            raise PutError(f"failed to put {_count(jobs)}{queued}: {before}, and {program} put ended with "
                           f"{done.returncode}: {said}")
        ids.append(done.stdout.decode().strip())
    return ids


def _command(program: str, job: dict[str, Any]) -> list[str]:
    """The command line that puts a job, with its data on stdin.

    >>> _command("taskvisor", {"queue": "q", "class": "c", "data": 1, "delay": 10, "tags": ["x"]})
    ['taskvisor', 'put', 'q', 'c', '-', '--delay=10s', '--tag=x']
    """
    command = [program, "put", job["queue"], job["class"], "-"]
    for name, option in (("priority", "priority"), ("retries", "retries"), ("id", "jid"), ("exists", "exists")):
        if name in job:
            command.append(f"--{option}={job[name]}")
    for name, option in (("delay", "delay"), ("time_limit", "time-limit")):
        if name in job:
            command.append(f"--{option}={_unit(job[name])}")
    command += [f"--depends={id}" for id in job.get("depends", ())]
    return command + [f"--tag={tag}" for tag in job.get("tags", ())]


def _unit(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{max(1, round(seconds * 1000))}ms"


def _count(jobs: list[dict[str, Any]]) -> str:
    return "1 job" if len(jobs) == 1 else f"{len(jobs)} jobs"
