"""Sample tasks of kale."""

import time

from kale import exceptions, task


class Base(task.Task):
    queue = "mail"


class Noop(Base):
    def run_task(self, *args, **kwargs):
        print("ran", args, sorted(kwargs.items()), self.app_data, self.task_id)


class Hooks(Base):
    target_runtime = 0

    @staticmethod
    def _setup_task_environment():
        print("setup")

    @staticmethod
    def _clean_task_environment(task_id=None, task_name=None, exc=None):
        print("clean", task_id, task_name, exc)

    def _pre_run(self, *args, **kwargs):
        print("pre", args)

    def _post_run(self, *args, **kwargs):
        print("post", args)

    def _alert_runtime_exceeded(self, *args, **kwargs):
        print("alert")

    def run_task(self, fails=False):
        print("run")
        if fails:
            raise ValueError("it fails")


class Unrecoverable(Base):
    def run_task(self):
        return {}["nothing"]


class Never(Base):
    max_retries = None

    def run_task(self):
        raise ValueError("once")


class Blacklisted(Base):
    def _check_blacklist(self, *args, **kwargs):
        raise exceptions.BlacklistedException("not this one")

    def run_task(self):
        print("never")


class Later(Base):
    def should_run_task(self, *args, **kwargs):
        return False

    def run_task(self):
        print("never")


class Long(Base):
    time_limit = 1

    def _kill_runtime_exceeded(self, *args, **kwargs):
        print("killed")

    def run_task(self):
        time.sleep(60)


class Publishes(Base):
    def run_task(self, delay_sec=None):
        more = {} if delay_sec is None else {"delay_sec": delay_sec}
        print(Noop.publish({"app": 1}, 1, "two", k=None, **more))


class Exits(Base):
    def run_task(self):
        raise SystemExit(3)


class OwnFailure(Base):
    @classmethod
    def handle_failure(cls, message, raised_exception, increment_failure_num=True):
        raise RuntimeError("handle_failure itself")

    def run_task(self):
        raise ValueError("first")


NotATask = object
