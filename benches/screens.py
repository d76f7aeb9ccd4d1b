#!/usr/bin/env python3
"""Makes docs/screens/*.png, the pictures of the page for the README: benches/screens.py BINARY

Starts a supervisor of its own with jobs of several kinds, the page, and Debian's Chromium (chromium-driver)."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent.parent
TASKS = '''
import random, time
from taskvisor import job

@job("mail.Send")
def send(to):
    time.sleep(random.uniform(0.1, 0.6))
    if hash(to) % 9 == 0:
        raise ConnectionError("smtp.example.org refused the connection")
    return {"sent": to}

@job("report.Build")
def build(pages):
    for page in range(pages):
        print(f"\\x1b[34mpage {page + 1}\\x1b[0m of {pages}", flush=True)
        if page % 7 == 3:
            print("\\x1b[33mwarning\\x1b[0m: a font is missing, another one stands in", flush=True)
        time.sleep(0.4)
'''
CONF = '''
pools:
- {name: programs, workers: 4, queues: [default, backup], grace: 1s, retries: 0}
- {name: app, workers: 6, queues: [mail, reports], grace: 1s, retries: 0, command: [python3, -m, taskvisor.worker, tasks]}
'''


class Browser:
    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if "successfully on port " in line:
                self.at = "http://127.0.0.1:" + line.strip().rstrip(".").rsplit(" ", 1)[1]
                break
        options = {"args": ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]}
        asked = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self.session = ""
        self.session = "/session/" + self.call("/session", asked)["sessionId"]

    def call(self, path, body, method="POST"):
        data = json.dumps(body).encode() if method == "POST" else None
        asked = urllib.request.Request(self.at + self.session + path, data=data, method=method)
        asked.add_header("content-type", "application/json")
        return json.load(urllib.request.urlopen(asked, timeout=60))["value"]

    def cdp(self, cmd, **params):
        return self.call("/goog/cdp/execute", {"cmd": cmd, "params": params})

    def picture(self, name, url, scheme, size=(1280, 800)):
        width, height = size
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("/url", {"url": url})
        time.sleep(1.5)
        shot = base64.b64decode(self.cdp("Page.captureScreenshot", format="png")["data"])
        (HERE / "docs/screens" / f"{name}.png").write_bytes(shot)
        print(name, len(shot))

    def close(self):
        self.call("", None, method="DELETE")
        self.driver.kill()


def main():
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "tasks.py").write_text(TASKS)
        (place / "conf.yaml").write_text(CONF)
        around = dict(os.environ, TASKVISOR_RUN_DIR=str(place / "run"), TASKVISOR_STATE_DIR=str(place / "state"))
        around["PYTHONPATH"] = str(HERE / "python")

        def run(*words, text=None):
            return subprocess.run([binary, *words], env=around, cwd=place, input=text, text=True, capture_output=True).stdout

        begin = dict(env=around, cwd=place)
        supervisor = subprocess.Popen([binary, "start", "-c", "conf.yaml"], stderr=subprocess.DEVNULL, **begin)
        while run("status", "-q") is None or subprocess.run([binary, "status", "-q"], **begin, stderr=subprocess.DEVNULL).returncode:
            time.sleep(0.3)
        people = "".join(json.dumps({"to": f"user{n}@example.org"}) + "\n" for n in range(160))
        run("put", "mail", "mail.Send", "--lines", "--batch", "letters", text=people)
        report = run("put", "reports", "report.Build", '{"pages": 400}').strip()
        for number in range(3):
            run("put", "-q", "backup", "--tag", "nightly", "--", "sh", "-c", "tar -c /usr/share/doc | gzip -9 | wc -c; sleep 60")
            run("put", "-q", "backup", "--", "gzip", "-t", f"archive-{number}.gz")
        run("put", "--delay", "2h", "-q", "reports", "--", "true")
        run("recur", "put", "nightly", "--cron", "0 3 * * *", "-q", "backup", "--", "true")
        page = subprocess.Popen([binary, "web"], stdout=subprocess.PIPE, text=True, **begin)
        url = page.stdout.readline().strip()
        base = url.split("/enter")[0]
        browser = Browser()
        try:
            browser.call("/url", {"url": url})
            time.sleep(6)
            browser.picture("overview-light", base + "/", "light")
            browser.picture("overview-dark", base + "/", "dark")
            browser.picture("job-light", f"{base}/job/{report}", "light")
            browser.picture("job-dark", f"{base}/job/{report}", "dark")
        finally:
            browser.close()
            page.kill()
            run("stop", "--kill")
            supervisor.wait()


main()
