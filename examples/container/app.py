"""A web application and its jobs: `POST /mail` puts one, a worker runs it. Standard library only."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from taskvisor import job


@job("mail.Send", time_limit=60, retries=3)
def send(to):
    print("sent to", to)
    return {"sent": 1}


class Web(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        to = json.loads(self.rfile.read(length))["to"]
        body = json.dumps({"job": send.put(to)}).encode()
        self.send_response(202)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(200)
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Web).serve_forever()
