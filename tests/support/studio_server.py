"""`dpgm serve` as a child process, and a browser before it: what happens in the console or leaves loopback is kept."""

import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import browsing

AXE = Path(sys.prefix) / "node" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class Served:
    """A served folder; the server may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: queue.Queue[str] = queue.Queue()
        self.start()

    def start(self) -> None:
        home = self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        here = os.environ | {"HOME": str(home), "DPGM_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dpgm", "serve", str(self.folder)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=here,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True).start()
        self.link = self._next_link()
        self.base = self.link.split("/enter")[0]

    def _read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self.lines.put(line)

    def _next_link(self) -> str:
        while True:
            found = re.search(r"open (http\S+)", self.lines.get(timeout=120))
            if found:
                return found[1]

    def new_link(self) -> str:
        """Press Enter in the terminal."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._next_link()

    def kill(self) -> None:
        """As if the computer had lost power, for the server alone."""
        self.process.kill()
        self._ended()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self._ended()

    def _ended(self) -> None:
        self.process.wait(timeout=60)
        self.process.stdin.close()

    def projects(self) -> list[Path]:
        return sorted((self.folder / "dpgm-studio" / "projects").iterdir(), key=lambda path: path.stat().st_ctime)

    def run_of(self, project: Path, kind: str = "fit") -> Any:
        return json.loads((project / f"{kind}.json").read_text())


class Visitor:
    """A browser page before the studio, with what it heard."""

    def __init__(self, served: Served, **context: Any) -> None:
        self.served = served
        self.context = browsing.shared_browser().new_context(
            **{"viewport": {"width": 1280, "height": 900}} | context
        )
        self.context.set_default_timeout(120_000)
        self.page = self.context.new_page()
        self.heard: list[str] = []
        self.page.on("console", lambda message: self.heard.append(message.text))
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(("data:", "blob:")) and urlsplit(url).hostname != "127.0.0.1":
            self.heard.append(f"left loopback: {url}")

    def enter(self) -> None:
        self.page.goto(self.served.link)
        self.served.link = "used"

    def close(self, *allowed: str) -> None:
        """End, and see to it that nothing was said but what is allowed."""
        self.context.close()
        strange = [text for text in self.heard if not any(word in text for word in allowed)]
        assert strange == []

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def at(self, step: str) -> None:
        """Wait until the page of a step is there."""
        self.page.wait_for_url(re.compile(f"/{step}(\\?|$)"))

    def sees(self, words: str) -> None:
        self.page.get_by_text(words).first.wait_for()

    def text(self) -> str:
        return self.page.inner_text("main")

    def faults(self, rules: list[str] | None = None) -> list[str]:
        """What axe-core finds on the page as it is, by all rules or by some."""
        self.page.evaluate(AXE.read_text())
        only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": TAGS}
        found = self.page.evaluate("only => axe.run({runOnly: only, resultTypes: ['violations']})", only)
        return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found["violations"]]


def need_axe() -> None:
    if not AXE.is_file():
        (pytest.fail if browsing.IN_CI else pytest.skip)("axe-core is not here; run `make install` where npm is")


def baskets(path: Path, people: int = 1200, items: int = 9) -> None:
    """Travellers and their stops, one row each, as an office exports them: semicolons, an extra column."""
    draw = random.Random(4)
    stops = [f"Stop {letter}" for letter in "ABCDEFGHIJKLM"[:items]]
    lines = ["Card No;Stop name;Day"]
    for who in range(people):
        home = draw.randrange(items)
        for stop in {home, *(draw.choice([home, (home + 1) % items, draw.randrange(items)]) for _ in range(3))}:
            lines.append(f"C{who:05d};{stops[stop]};{draw.randint(1, 28):02d}.03.2025")
    draw.shuffle(body := lines[1:])
    path.write_text("\n".join([lines[0], *body]) + "\n")
