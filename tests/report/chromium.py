"""A real headless Chromium, asked over its own pipe: no driver package, no network, an empty profile.

Only what the report's tests need: open a page at a size and in a colour scheme, evaluate an expression, take a
screenshot, print to PDF, and list every request that the page tried to make.
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
IN_SIGHT = """
(() => {
  const words = [], high = innerHeight, wide = innerWidth;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, .vh, .skip") || !parent.checkVisibility()) continue;
    const pieces = node.data.matchAll(/\\S+/g);
    for (const piece of pieces) {
      if (!/\\p{L}/u.test(piece[0])) continue;
      const range = document.createRange();
      range.setStart(node, piece.index);
      range.setEnd(node, piece.index + piece[0].length);
      const box = range.getBoundingClientRect();
      if (box.width && box.height && box.top < high && box.bottom > 0) words.push(piece[0]);
    }
  }
  const tops = [...document.querySelectorAll("main svg, main img")].map(e => e.getBoundingClientRect())
    .filter(b => b.width > 40 && b.height > 8).map(b => b.top);
  const cut = [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1).length;
  return {words: words.length, text: words.join(" "), first: Math.round(Math.min(...tops, 99999)),
    wider: document.documentElement.scrollWidth > wide, cut: cut};
})()
"""
"""Words and pictures of the page before the first scroll, tables that are cut, and whether the page is too wide."""


def find_chromium() -> str | None:
    """The path of an installed Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser process with one open page at a time."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="memorisk-chromium-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [path, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # The browser reads commands from its file 3 and writes answers to its file 4; a shell moves ours there, since a
        # child's numbers cannot be chosen otherwise.
        shuffle = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shuffle, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._target: str | None = None

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def open(
        self, file: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = ""
    ) -> None:
        """Load a file, or an address, in a fresh tab of this size, and wait until it is complete."""
        if self._target:
            session, self._session = self._session, None
            self.call("Target.closeTarget", targetId=self._target)
            del session
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._events.clear()
        self.call("Page.navigate", url=file if isinstance(file, str) else file.resolve().as_uri())
        self.await_load()
        # On a busy machine the load of the blank page is reported late, and is not that of the address.
        while self.evaluate("location.href === 'about:blank' || document.readyState !== 'complete'"):
            time.sleep(0.02)

    def await_load(self) -> None:
        """Wait until the page is complete that was asked for since the last one was."""
        while not any(e.get("method") == "Page.loadEventFired" for e in self._events):
            self._events.append(self._read())
        self._events = [e for e in self._events if e.get("method") != "Page.loadEventFired"]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; the page's content policy does not bind the debugger."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def in_sight(self) -> dict[str, Any]:
        """Words before the first scroll, the upper edge of the first picture, and what is wider than its place."""
        return self.evaluate(IN_SIGHT)

    def requests(self) -> list[str]:
        """Every address that the page asked for since it was opened, its own file included, pictures inside it not."""
        self.evaluate("0")
        sent = [e for e in self._events if e.get("method") == "Network.requestWillBeSent"]
        return [url for e in sent if not (url := e["params"]["request"]["url"]).startswith("data:")]

    def complaints(self) -> list[str]:
        """What the browser wrote to its log: refused scripts, broken policies, errors."""
        self.evaluate("0")
        logged = [e["params"]["entry"]["text"] for e in self._events if e.get("method") == "Log.entryAdded"]
        thrown = [str(e["params"]) for e in self._events if e.get("method") == "Runtime.exceptionThrown"]
        return logged + thrown

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """A PNG of the page, from its top to its end."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, file: Path) -> None:
        """The page as it would be printed on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def press(self, key: str) -> None:
        """Press and release a key, as a reader with a keyboard would."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = codes.get(key) or ord(key.upper())
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events that come meanwhile are kept."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._events.append(answer)

    def _read(self) -> dict[str, Any]:
        """The next message of the browser."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            if not ready:
                raise TimeoutError(f"Chromium said nothing for {PATIENCE:g} s")
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise RuntimeError(f"Chromium ended with code {self._process.poll()}")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)
