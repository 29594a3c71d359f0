"""Drives a headless Chromium over its debugging pipe, with nothing but Python."""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
PATIENCE_S = 300


def find_browser():
    found = [shutil.which(name) for name in NAMES]
    return next((path for path in found if path), None)


class Browser:
    """One browser with one page; `events` holds all that the page reported, by method."""

    def __init__(self, program, profile):
        to_child, self.commands = (high(fd) for fd in os.pipe())
        self.answers, from_child = (high(fd) for fd in os.pipe())
        options = ["--headless", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking",
                   "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")

        def place():
            os.dup2(to_child, 3)
            os.dup2(from_child, 4)

        self.process = subprocess.Popen([program, *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=place, pass_fds=(3, 4))
        os.close(to_child)
        os.close(from_child)
        self.buffer = b""
        self.last_id = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise ConnectionError("the browser ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        deadline = time.monotonic() + PATIENCE_S
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive(deadline))

    def open(self, path, width=1100, scheme="light", media=""):
        """Shows the page as a reader with such a screen and such tastes would see it."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800,
                  deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def of_events(self, *methods):
        return [event["params"] for event in self.events if event.get("method") in methods]

    def save_screenshot(self, path):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def save_pdf(self, path):
        pdf = self.call("Page.printToPDF", preferCSSPageSize=True)
        pathlib.Path(path).write_bytes(base64.b64decode(pdf["data"]))


def high(fd):
    """The same file under a number that leaves 3 and 4 free."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return copy
