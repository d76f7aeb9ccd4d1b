"""Publishes tasks after some checks."""

from kale import exceptions, message, queue_info, settings, sqs, utils


class Publisher(sqs.SQSTalk):
    def publish(self, task_class, task_id, payload, current_retry_num=None, current_failure_num=None, delay_sec=None):
        if delay_sec is not None and delay_sec > settings.SQS_MAX_TASK_DELAY_SEC:
            raise exceptions.InvalidTaskDelayException(f"{delay_sec} s is too long a delay")
        queues = queue_info.QueueInfo(settings.QUEUE_CONFIG, self, utils.class_import_from_path(settings.QUEUE_CLASS))
        queue = queues.get_queue(task_class.queue)
        if task_class.time_limit >= queue.visibility_timeout_sec:
            raise exceptions.InvalidTimeLimitTaskException(f"{task_class.time_limit} s is too long a time limit")
        made = message.KaleMessage(task_class=task_class, task_id=task_id, payload=payload,
                                   current_retry_num=current_retry_num, current_failure_num=current_failure_num)
        self._get_or_create_queue(queue.name).send_message(MessageBody=made.encode(), DelaySeconds=delay_sec or 1)
