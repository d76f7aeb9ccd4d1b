"""An application of kale with one task of each shape. Each task writes what happens to it into the file of events."""

import json
import os
import time

from kale import exceptions, task, worker


def event(*said):
    """Adds a line to the file of events."""
    with open(os.environ["NDKALE_EVENTS"], "a") as file:
        file.write(json.dumps(said) + "\n")


class Base(task.Task):
    queue = "mail"
    _retry_delay_multiple = 0
    tries = 0

    def run_task(self, *args, **kwargs):
        event(type(self).__name__, "ran", repr(args), repr(sorted(kwargs.items())), repr(self.app_data))


class Plain(Base):
    pass


class Failing(Base):
    max_retries = 2

    def run_task(self):
        super().run_task()
        raise ConnectionError("no answer")


class NoneRetries(Failing):
    max_retries = None


class ZeroRetries(Failing):
    max_retries = 0


class Unrecoverable(Base):
    def run_task(self):
        super().run_task()
        return {}["nothing"]


class OwnList(Failing):
    EXCEPTION_LIST = (ConnectionError,)


class NotYet(Base):
    def should_run_task(self, mark):
        found = os.path.exists(mark)
        event("NotYet", "asked", found)
        open(mark, "w").close()
        return found

    def run_task(self, mark):
        event("NotYet", "ran")


class Limited(Base):
    time_limit = 1
    max_retries = 1

    def run_task(self):
        super().run_task()
        time.sleep(30)

    def _kill_runtime_exceeded(self, *args, **kwargs):
        event("Limited", "killed")


class Publishes(Base):
    def run_task(self):
        event("Publishes", "published", Plain.publish({"from": "task"}, 1).split("_uuid_")[0])
        Plain.publish(None, "late", delay_sec=1)


class Refused(Base):
    """Publishes what kale refuses."""

    def run_task(self, name):
        try:
            globals()[name].publish(None, **({"delay_sec": 901} if name == "Late" else {}))
        except Exception as error:
            event("Refused", name, type(error).__name__)


class Lost(Base):
    queue = "nowhere"


class TooSlow(Base):
    time_limit = 600


class Late(Base):
    pass


class Hooks(Base):
    target_runtime = 1e-9

    @staticmethod
    def _setup_task_environment():
        event("Hooks", "set up")

    @staticmethod
    def _clean_task_environment(task_id=None, task_name=None, exc=None):
        event("Hooks", "clean", task_name, repr(exc))

    def _pre_run(self, *args, **kwargs):
        event("Hooks", "before")
        super()._pre_run(*args, **kwargs)

    def _post_run(self, *args, **kwargs):
        super()._post_run(*args, **kwargs)
        event("Hooks", "after")

    def _alert_runtime_exceeded(self, *args, **kwargs):
        event("Hooks", "alert")


class HooksFailing(Hooks):
    max_retries = 1

    def run_task(self):
        raise ValueError("it fails")


class OwnFailure(Failing):
    @classmethod
    def handle_failure(cls, message, raised_exception, increment_failure_num=True):
        event("OwnFailure", "handles", type(raised_exception).__name__, message.task_failure_num)
        return super().handle_failure(message, raised_exception, increment_failure_num)


class Uncounted(Failing):
    """Runs again without a counted failure, until it has run three times."""

    @classmethod
    def handle_failure(cls, message, raised_exception, increment_failure_num=True):
        event("Uncounted", message.task_retry_num, message.task_failure_num)
        return message.task_retry_num < 2 and super().handle_failure(message, raised_exception, False)


class Blacklisted(Base):
    def _check_blacklist(self, *args, **kwargs):
        raise exceptions.BlacklistedException("not this one")


class Moved(Base):
    pass


class OwnId(Base):
    @classmethod
    def _get_task_id(cls, *args, **kwargs):
        return "own-id"

    def run_task(self):
        event("OwnId", self.task_id)


class Worker(worker.Worker):
    """Hooks of the application's worker."""

    def _on_task_succeeded(self, message, time_remaining_sec):
        event(message.task_inst.task_name, "succeeded")

    def _on_task_failed(self, message, time_remaining_sec, err, permanent_failure):
        event(message.task_inst.task_name, "failed", type(err).__name__, permanent_failure)


def publish_all(directory):
    """Publishes a task of each shape."""
    Plain.publish(None, 1, "two", k=None)
    Plain.publish({"a": [1, {"b": (2, 3)}]}, b"\x00\xff", {1, 2}, 2.5)
    Plain.publish("unicode", "gr\u00fc\u00dfe \u6f22\u5b57 \U0001f600", **{"sch\u00f6n": "\u00e9"})
    Plain.publish(None, "y" * 4000)
    for kind in (Failing, NoneRetries, ZeroRetries, Unrecoverable, OwnList, Limited, Publishes, Hooks, HooksFailing,
                 OwnFailure, Uncounted, Blacklisted, OwnId):
        kind.publish(None)
    NotYet.publish(None, os.path.join(directory, "mark"))
    for name in ("Lost", "TooSlow", "Late"):
        Refused.publish({"n": 1}, name)
    Plain.publish(None, delay_sec=1)
    moved = type("Old", (Moved,), {"__module__": "gone.away"})
    moved.publish(None, 7)
