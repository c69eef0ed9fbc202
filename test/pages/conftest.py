# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the pages and pictures that sreplay writes, in a headless Chromium.

The pages are made by the program page_samples of the build (TRANCHE_BUILD, by default build/).
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TRANCHE_BUILD", TOP / "build"))


class Browser:
    """Chromium, spoken to in its DevTools protocol over a pipe: messages are JSON, each ended by a
    zero byte, on its file descriptors 3 (to it) and 4 (from it)."""

    def __init__(self, profile):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        assert program, "chromium is not installed"
        to_it, self._write = os.pipe()
        self._read, from_it = os.pipe()

        def descriptors():
            # Copies first: one of the two may be 3 or 4 itself.
            reads, writes = os.dup(to_it), os.dup(from_it)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self._child = subprocess.Popen(  # pylint: disable=consider-using-with
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb",
             f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            close_fds=False, preexec_fn=descriptors, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it)
        os.close(from_it)
        self._number = 0
        self._rest = b""
        self.events = []

    def close(self):
        try:
            self.call("Browser.close", within=5)
            self._child.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method, session=None, within=60, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + within
        while True:
            answer = self._message(end, method)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _message(self, end, what):
        while b"\0" not in self._rest:
            left = end - time.monotonic()
            ready = left > 0 and select.select([self._read], [], [], left)[0]
            assert ready, f"the browser did not answer {what}"
            got = os.read(self._read, 1 << 20)
            assert got, f"the browser ended during {what}"
            self._rest += got
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


class Page:
    """A tab that shows one file."""

    def __init__(self, browser, file, width=1280, height=900, dark=False, scale=1, script=True):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        self._session = browser.call(
            "Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Network.enable")
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.resize(width, height, scale)
        browser.events.clear()
        self.call("Page.navigate", url=Path(file).resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def call(self, method, **parameters):
        return self._browser.call(method, session=self._session, **parameters)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=width < 600)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=20):
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"did not become true: {expression}"
            time.sleep(0.02)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, file=None, whole=True):
        picture = base64.b64decode(self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole,
            **({"clip": self._all()} if whole else {}))["data"])
        if file:
            Path(file).write_bytes(picture)
        return picture

    def _all(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def complaints(self):
        """Errors and warnings of the console, exceptions, and all that was asked of a network."""
        self.value("1")
        out = []
        for event in self._browser.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                out.append(told["exceptionDetails"])
            elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
                out.append(told["args"])
            elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                out.append(told["entry"])
            elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith(
                    ("file:", "data:")):
                out.append(told["request"]["url"])
        return out

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(name="open_page")
def fixture_open_page(browser):
    pages = []

    def open_page(file, **options):
        pages.append(Page(browser, file, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([str(BUILD / "page_samples"), str(folder)], check=True, timeout=300)
    return folder
