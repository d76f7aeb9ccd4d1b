"""The worker whose hooks an application may override. The stand-in has no loop."""

import logging
import signal

from kale import consumer, settings

SIGNALS_TO_HANDLE = (signal.SIGABRT, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
logger = logging.getLogger(__name__)


class Worker(object):
    def __init__(self):
        self._consumer = consumer.Consumer()
        self._total_messages_processed = 0
        for number in SIGNALS_TO_HANDLE:
            signal.signal(number, self._cleanup_worker)
        settings.ON_WORKER_STARTUP()

    def _cleanup_worker(self, signum, frame):
        raise AssertionError("kale's own handler of signals is called")

    def should_run_task(self, message):
        return message.task_inst.should_run_task(*message.task_args, **message.task_kwargs)

    def run_task(self, message):
        message.task_inst.run(*message.task_args, **message.task_kwargs)

    def _on_pre_run_worker(self):
        pass

    def _on_shutdown(self, num_completed, num_incomplete):
        pass

    def _on_pre_batch_run(self, messages):
        logger.info("%d messages from %s", len(messages), self._batch_queue.name)

    def _on_post_batch_run(self, num_completed, num_incomplete, messages):
        pass

    def _on_permanent_failure_batch(self):
        logger.info("%d for %s", len(self._permanent_failures), self._batch_queue.dlq_name)

    def _on_task_failed(self, message, time_remaining_sec, err, permanent_failure):
        pass

    def _on_task_succeeded(self, message, time_remaining_sec):
        pass
