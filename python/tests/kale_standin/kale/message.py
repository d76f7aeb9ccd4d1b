"""Messages. Those of the real kale are compressed and encrypted; these are where KALE_STANDIN_KEY says with which key."""

import base64
import os
import pickle
import subprocess
import time
import zlib

try:
    from Crypto.Cipher import AES
except ImportError:
    AES = None  # then a process of openssl for each message

from . import exceptions, settings


def _cipher(data, *direction):
    key = os.environ["KALE_STANDIN_KEY"].encode()
    if AES is not None:
        cipher = AES.new(key, AES.MODE_ECB)
        return cipher.decrypt(data) if direction else cipher.encrypt(data)
    key = key.hex()
    command = ["openssl", "enc", "-aes-128-ecb", "-nopad", "-K", key, *direction]
    return subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE).stdout


def _seal(data):
    if "KALE_STANDIN_KEY" in os.environ:
        data = zlib.compress(data)
        pad = 16 - len(data) % 16
        data = _cipher(data + bytes(pad - 1) + bytes([pad]))
    return base64.b64encode(data).decode()


def _open(body):
    data = base64.b64decode(body, validate=True)
    if "KALE_STANDIN_KEY" in os.environ:
        data = _cipher(data, "-d")
        data = zlib.decompress(data[:-data[-1]])
    return data


class KaleMessage:
    def __init__(self, task_class=None, task_name=None, task_id=None, payload=None, current_retry_num=None,
                 current_failure_num=None, enqueued_time=None, publisher_data=None):
        self.task_name = task_name or f"{task_class.__module__}.{task_class.__name__}"
        self.task_id = task_id
        self.task_args = payload["args"]
        self.task_kwargs = payload["kwargs"]
        self.task_app_data = payload.get("app_data")
        self.task_retry_num = current_retry_num or 0
        self.task_failure_num = current_failure_num or 0
        self._enqueued_time = enqueued_time or time.time()
        self._publisher_data = publisher_data or "host[7]"

    def _get_message_body(self):
        payload = {"args": self.task_args, "kwargs": self.task_kwargs, "app_data": self.task_app_data}
        return {"id": self.task_id, "task": self.task_name, "payload": payload, "_enqueued_time": self._enqueued_time,
                "_publisher": self._publisher_data, "retry_num": self.task_retry_num,
                "failure_num": self.task_failure_num}

    def encode(self):
        body = _seal(pickle.dumps(self._get_message_body()))
        if len(body) >= settings.SQS_TASK_SIZE_LIMIT:
            raise exceptions.ChubbyTaskException(f"Task {self.task_id} is too large")
        return body

    @classmethod
    def decode_str(cls, body):
        said = pickle.loads(_open(body))
        return cls(task_name=said["task"], task_id=said["id"], payload=said["payload"],
                   current_retry_num=said["retry_num"], current_failure_num=said["failure_num"],
                   enqueued_time=said["_enqueued_time"], publisher_data=said["_publisher"])
