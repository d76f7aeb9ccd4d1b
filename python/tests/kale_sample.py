"""Sample tasks of kale."""

import time

from kale import exceptions, task, worker


class Base(task.Task):
    queue = "mail"


class Noop(Base):
    def run_task(self, *args, **kwargs):
        print("ran", args, sorted(kwargs.items()), self.app_data, self.task_id)


class Hooks(Base):
    target_runtime = 1e-9

    @staticmethod
    def _setup_task_environment():
        print("setup")

    @staticmethod
    def _clean_task_environment(task_id=None, task_name=None, exc=None):
        print("clean", task_id, task_name, exc)

    def _pre_run(self, *args, **kwargs):
        print("pre", args)
        super()._pre_run(*args, **kwargs)

    def _post_run(self, *args, **kwargs):
        super()._post_run(*args, **kwargs)
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


class Misdirected(Base):
    """Never to be published: no file names its queue."""

    queue = "nowhere"


class TooSlow(Base):
    """Never to be published: its time limit is the visibility timeout of its queue."""

    queue = "short"


class PublishesWrong(Base):
    def run_task(self, name, *args):
        try:
            globals()[name].publish(None, *args)
        except Exception as error:
            print(type(error).__name__)
            raise


class Exits(Base):
    def run_task(self):
        raise SystemExit(3)


class OwnFailure(Base):
    @classmethod
    def handle_failure(cls, message, raised_exception, increment_failure_num=True):
        raise RuntimeError("handle_failure itself")

    def run_task(self):
        raise ValueError("first")


class Worker(worker.Worker):
    """A worker as an application has it: with hooks, and with what they need."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def _on_pre_run_worker(self):
        print("worker starts", self.seen)

    def _on_shutdown(self, num_completed, num_incomplete):
        print("worker ends", num_completed, num_incomplete)

    def _on_pre_batch_run(self, messages):
        super()._on_pre_batch_run(messages)
        print("batch", [message.id for message in messages], self._batch_queue.name)

    def _on_post_batch_run(self, num_completed, num_incomplete, messages):
        print("batch over", num_completed, num_incomplete, self._total_messages_processed)

    def _on_permanent_failure_batch(self):
        super()._on_permanent_failure_batch()
        print("dead", [message.task_id for message in self._permanent_failures])

    def _on_task_succeeded(self, message, time_remaining_sec):
        self.seen += 1
        print("succeeded", message.task_name, 0 < time_remaining_sec <= 600, self.seen)
        if message.task_kwargs.get("breaks"):
            raise ValueError("a hook fails")

    def _on_task_failed(self, message, time_remaining_sec, err, permanent_failure):
        print("failed", message.task_inst.task_name, err, permanent_failure)

    def run_task(self, message):
        print("by the worker")
        super().run_task(message)


NotATask = object
