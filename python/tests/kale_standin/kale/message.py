"""Messages."""

import pickle

import standin
from kale import exceptions, settings


class KaleMessage:
    def __init__(self, sqs_message_id=None, sqs_receipt_handle=None, sqs_queue_name=None, task_class=None, task_name=None,
                 task_id=None, payload=None, current_retry_num=None, current_failure_num=None, enqueued_time=None,
                 publisher_data=None, instantiate_task=False, delete_func=None):
        assert not instantiate_task, "the stand-in makes no task"
        self.id = sqs_message_id
        self.sqs_receipt_handle = sqs_receipt_handle
        self.sqs_queue_name = sqs_queue_name
        self.delete_func = delete_func
        self.task_name = task_name if task_class is None else f"{task_class.__module__}.{task_class.__name__}"
        self.task_id = task_id
        self.task_args = payload["args"]
        self.task_kwargs = payload["kwargs"]
        self.task_app_data = payload.get("app_data")
        self.task_retry_num = current_retry_num or 0
        self.task_failure_num = current_failure_num or 0
        self._enqueued_time = enqueued_time or settings.TIMESTAMP_FUNC()
        self._publisher_data = publisher_data or settings.PUBLISHER_STR_FUNC()

    def _get_message_body(self):
        payload = {"args": self.task_args, "kwargs": self.task_kwargs, "app_data": self.task_app_data}
        return {"id": self.task_id, "task": self.task_name, "payload": payload, "_enqueued_time": self._enqueued_time,
                "_publisher": self._publisher_data, "retry_num": self.task_retry_num,
                "failure_num": self.task_failure_num}

    def encode(self):
        body = standin.seal(pickle.dumps(self._get_message_body()))
        if len(body) >= settings.SQS_TASK_SIZE_LIMIT:
            raise exceptions.ChubbyTaskException(f"Task {self.task_id} is too large")
        return body

    @classmethod
    def decode_str(cls, message_str):
        said = pickle.loads(standin.unseal(message_str))
        return cls(task_name=said["task"], task_id=said["id"], payload=said["payload"],
                   current_retry_num=said["retry_num"], current_failure_num=said["failure_num"],
                   enqueued_time=said["_enqueued_time"], publisher_data=said["_publisher"])
