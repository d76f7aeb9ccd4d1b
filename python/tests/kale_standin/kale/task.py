"""The base class of tasks."""

import logging
import time
import uuid

from kale import exceptions, publisher, settings


class Task(object):
    queue = None
    max_retries = 4
    time_limit = 60
    target_runtime = 50
    _retry_delay_multiple = settings.RETRY_DELAY_MULTIPLE_SEC
    EXCEPTION_LIST = (exceptions.BlacklistedException, KeyError, NotImplementedError, SyntaxError, UnboundLocalError)

    def __init__(self, message_body=None, *args, **kwargs):
        said = message_body or {}
        self._start_time = None
        self.task_id = said.get("id")
        self.task_name = f"{type(self).__module__}.{type(self).__name__}"
        self.app_data = said.get("payload", {}).get("app_data")
        self._dequeued()

    @staticmethod
    def _get_publisher():
        return publisher.Publisher()

    @classmethod
    def _get_task_id(cls, *args, **kwargs):
        return f"{cls.__name__}_uuid_{uuid.uuid1()}"

    @classmethod
    def publish(cls, app_data, *args, **kwargs):
        task_id = cls._get_task_id(*args, **kwargs)
        payload = {"args": args, "kwargs": kwargs, "app_data": app_data}
        cls._get_publisher().publish(cls, task_id, payload, delay_sec=kwargs.get("delay_sec"))
        return task_id

    @classmethod
    def handle_failure(cls, message, raised_exception, increment_failure_num=True):
        if isinstance(raised_exception, exceptions.TimeoutException):
            message.task_inst._kill_runtime_exceeded()
        kind = None
        if isinstance(raised_exception, cls.EXCEPTION_LIST):
            kind = "unrecoverable"
        elif not cls.max_retries or cls.max_retries <= 0:
            kind = "no_retries"
        elif message.task_failure_num >= cls.max_retries:
            kind = "max_retries"
        if kind is not None:
            logging.getLogger(__name__).error("PERMANENT_TASK_FAILURE: FAILURE_TYPE=%s", kind)
            return False
        cls.republish(message, message.task_failure_num + bool(increment_failure_num))
        return True

    @classmethod
    def republish(cls, message, failure_count):
        payload = {"args": message.task_args, "kwargs": message.task_kwargs, "app_data": message.task_app_data}
        cls._get_publisher().publish(cls, message.task_id, payload, current_retry_num=message.task_retry_num + 1,
                                     current_failure_num=failure_count,
                                     delay_sec=cls._get_delay_sec_for_retry(message.task_retry_num))

    @classmethod
    def _get_delay_sec_for_retry(cls, current_retry_num):
        return min((1 << current_retry_num) * cls._retry_delay_multiple, settings.SQS_MAX_TASK_DELAY_SEC)

    def run(self, *args, **kwargs):
        self._setup_task_environment()
        self._pre_run(*args, **kwargs)
        try:
            self._check_blacklist(*args, **kwargs)
            self.run_task(*args, **kwargs)
        except Exception as error:
            self._task_latency_sec = time.time() - self._start_time
            self._clean_task_environment(task_id=self.task_id, task_name=self.task_name, exc=error)
            raise
        self._post_run(*args, **kwargs)
        self._clean_task_environment(task_id=self.task_id, task_name=self.task_name)

    def run_task(self, *args, **kwargs):
        raise NotImplementedError

    def should_run_task(self, *args, **kwargs):
        return True

    def _dequeued(self, *args, **kwargs):
        pass

    def _check_blacklist(self, *args, **kwargs):
        pass

    @staticmethod
    def _setup_task_environment():
        pass

    @staticmethod
    def _clean_task_environment(task_id=None, task_name=None, exc=None):
        pass

    def _pre_run(self, *args, **kwargs):
        self._start_time = time.time()

    def _post_run(self, *args, **kwargs):
        self._task_latency_sec = time.time() - self._start_time
        if self.target_runtime and self._task_latency_sec >= self.target_runtime:
            self._alert_runtime_exceeded()

    def _alert_runtime_exceeded(self, *args, **kwargs):
        pass

    def _kill_runtime_exceeded(self, *args, **kwargs):
        pass
