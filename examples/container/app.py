"""A web application and its jobs: `POST /mail` puts one, a worker runs it, `GET /mail/ID` waits for it and shows it."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from taskvisor import JobFailed, JobId, NoSuchJob, PutError, job


@job("mail.Send", time_limit=60, retries=3)
def send(to):
    print("sent to", to)
    return {"sent": 1}


class Web(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        to = json.loads(self.rfile.read(length))["to"]
        try:
            self.answer(202, {"job": send.put(to)})
        except PutError as error:
            self.answer(503, {"error": str(error)})

    def do_GET(self):
        path, _, id = self.path.rpartition("/")
        if path != "/mail":
            self.answer(200, {})
            return
        try:
            self.answer(200, {"result": JobId(id).result(timeout=10)})
        except NoSuchJob:
            self.answer(404, {"error": "no such mail"})
        except (JobFailed, TimeoutError) as error:
            self.answer(502, {"error": str(error)})

    def answer(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    # Here, not above: the workers load this module, too, and their jobs put by their supervisor.
    from taskvisor.redis import RedisClient

    RedisClient(os.environ["TASKVISOR_BROKER"]).use()
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Web).serve_forever()
