"""A studio in process: its application, its secrets, and a client that sends what is told, byte for byte."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra `studio` is not installed; run `make install`")

from dpgm.studio import library
from dpgm.studio.guard import Session
from dpgm.studio.pages import Desk
from dpgm.studio.runs import Runs
from dpgm.studio.server import application
from dpgm.studio.workspace import Workspace

PORT = 4321
HOST = f"127.0.0.1:{PORT}"
OWN = {"host": HOST, "sec-fetch-site": "same-origin", "origin": f"http://{HOST}"}


def run(work: Any) -> Any:
    """Run a coroutine to its end, in a thread of its own: a browser's loop may run in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Here(library.Library):
    """The library in this process: no helper is started."""

    async def call(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


class Reply:
    """Status, headers and body of an answer."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status, self.body = status, body
        self.raw = headers
        self.headers = {name.decode(): value.decode() for name, value in headers}

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One studio over a folder, with a clock that tests move."""

    def __init__(self, folder: Path, *, largest: int = 10**6) -> None:
        self.now = 1000.0
        self.session = Session(PORT, clock=lambda: self.now)
        self.workspace = Workspace(folder)
        self.workspace.open(f"http://{HOST}")
        self.desk = Desk(self.workspace, Runs(self.workspace), Here())
        self.app = application(self.desk, self.session, largest=largest)
        self.session.unlock()

    @property
    def cookie(self) -> str:
        return f"{self.session.cookie}={self.session.secret}"

    def send(self, method: str, path: str, headers: Any = (), body: Any = b"") -> Reply:
        """A request with exactly these headers; `body` may be a list of parts."""
        raw, _, query = path.partition("?")
        listed = headers.items() if isinstance(headers, dict) else headers
        parts = list(body) if isinstance(body, list) else [body]
        scope = {
            "type": "http", "method": method, "path": raw, "raw_path": raw.encode("latin-1"), "root_path": "",
            "query_string": query.encode(), "scheme": "http", "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 9),
            "http_version": "1.1",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in listed],
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            more = len(parts) > 1
            return {"type": "http.request", "body": parts.pop(0) if parts else b"", "more_body": more}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        run(self.app(scope, receive, send))
        body_sent = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
        return Reply(sent[0]["status"], sent[0]["headers"], body_sent)

    def get(self, path: str, **more: str) -> Reply:
        """One of our own pages, asked for as the browser does."""
        headers = {"host": HOST, "sec-fetch-site": "same-origin", "cookie": self.cookie} | more
        return self.send("GET", f"{self.session.path}{path}", headers)

    def post(self, path: str, form: Any = (), **more: str) -> Reply:
        """One of our own forms, sent as the browser does."""
        headers = OWN | {"cookie": self.cookie, "content-type": "application/x-www-form-urlencoded"} | more
        return self.send("POST", f"{self.session.path}{path}", headers, urlencode(dict(form)).encode())

    def page(self, path: str) -> Any:
        """What a page shows, as JSON."""
        reply = self.get(f"{path}.json")
        assert reply.status == 200, reply.text
        return reply.json()

    def follow(self, reply: Reply) -> str:
        """Where an action led, below the secret path."""
        assert reply.status == 303, reply.text
        return reply.headers["location"].removeprefix(self.session.path)
