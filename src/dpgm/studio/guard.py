"""Who may ask the studio for what: everything is refused that is not allowed here.

The server listens to this computer alone, but every page that is open in the same browser, and every other user of the
computer, can reach it as well. So a request must name this very host (a name that an attacker points to this machine is
refused first of all), hold the cookie that was given for a token from the terminal, and, if it changes anything, come
from one of our own pages. Cookies do not know ports: the studio lies under a secret path, to which its cookie is bound.
"""

import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from starlette.responses import PlainTextResponse, RedirectResponse, Response

Scope: TypeAlias = MutableMapping[str, Any]
Asgi: TypeAlias = Callable[..., Any]

TOKEN_SECONDS = 120.0  # a token is used within this time, or not at all
IDLE_SECONDS = 900.0  # without a request, after which pages that show real rows are locked
LARGEST_FORM = 2**20  # bytes of a form without a file
MOST_FIELDS = 5_000  # fields of a form: a thousand columns with five each
CHANGING = ("POST",)
_PLAIN = re.compile(r"/[a-z0-9/._-]*")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send `Origin: null` from our own forms
    "Cache-Control": "no-store",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self'{image}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Access(StrEnum):
    """What a route shows or does; a route without one cannot be made."""

    OPEN = "open"  # style and script: the same for everybody
    SAFE = "safe"  # public numbers and what was released
    CURATOR = "curator"  # may show what real rows say
    CHANGE = "change"  # saves an answer or starts a command that spends nothing
    SPEND = "spend"  # starts a fit


@dataclass
class Session:
    """The secrets of one run of the server: the path, the cookie, and the token that is exchanged for it."""

    port: int
    clock: Callable[[], float] = time.monotonic
    path: str = field(default_factory=lambda: f"/s/{secrets.token_hex(16)}")
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    last_seen: float = 0.0
    locked: bool = False
    _token: str = ""
    _issued: float = 0.0

    @property
    def cookie(self) -> str:
        """Its name; it carries the port, since cookies do not."""
        return f"dpgm-{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which the server may be asked."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    def new_token(self) -> str:
        """A token that can be exchanged once; an earlier one is void."""
        self._token, self._issued = secrets.token_urlsafe(32), self.clock()
        return self._token

    def take_token(self, token: str) -> bool:
        """Whether this is the token, in time; it is void afterwards, as it is after a wrong one."""
        valid, self._token = self._token, ""
        in_time = self.clock() - self._issued <= TOKEN_SECONDS
        return bool(valid) and in_time and hmac.compare_digest(valid.encode(), token.encode())

    def holds(self, secret: str) -> bool:
        """Whether somebody shows the secret of the session."""
        return hmac.compare_digest(self.secret.encode(), secret.encode())

    def touch(self) -> None:
        """Somebody is there; whoever comes after a long pause finds pages with real rows locked."""
        self.locked = self.is_locked
        self.last_seen = self.clock()

    @property
    def is_locked(self) -> bool:
        """Whether pages with real rows are locked, until there is a new link."""
        return self.locked or self.clock() - self.last_seen > IDLE_SECONDS

    def unlock(self) -> None:
        """Somebody came with a token."""
        self.locked, self.last_seen = False, self.clock()


class Guard:
    """The outermost application: refuses, or hands on, and puts the headers on every answer."""

    def __init__(self, app: Asgi, session: Session, find: Callable[[str, str], Any], largest: int) -> None:
        self.app = app
        self.session = session
        self.find = find  # the route of a method and a path below the secret one, or None; it has an `access`
        self.largest = largest  # bytes of an upload

    async def __call__(self, scope: Scope, receive: Asgi, send: Asgi) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            return
        reply = self._reply(scope)
        if reply is not None:
            await reply(scope, receive, _with_headers(send))
            return
        limit = self.largest if _is_upload(scope) else LARGEST_FORM
        await self.app(scope, _limited(receive, limit), _with_headers(send))

    def _reply(self, scope: Scope) -> Response | None:
        """What the guard answers itself; None if the request may pass."""
        headers = _Headers(scope["headers"])
        session = self.session
        if headers.only("host") not in session.hosts:
            return _refused("This address is not one of the studio.")
        inside = _below(session.path, scope)
        if inside is None:
            return _refused("Open the link that the terminal shows.")
        if inside == "/enter" and scope["method"] == "GET":
            return self._enter(scope)
        scope["found"] = self.find(scope["method"], inside)  # what was checked here is what is run
        if scope["found"] is None:
            return _refused("There is no such page.", 404)
        access = scope["found"].access
        return None if access is Access.OPEN else self._why_not(access, scope, headers)

    def _why_not(self, access: Access, scope: Scope, headers: "_Headers") -> Response | None:
        session = self.session
        bearer = headers.only("authorization").removeprefix("Bearer ")
        if bearer and session.holds(bearer):  # a script: no browser sends this header by itself
            session.touch()
            return None if _size(headers) <= self.largest else _too_large()
        if not session.holds(headers.cookie(session.cookie)):
            return _refused("Open the link that the terminal shows; press Enter there for a new one.")
        if headers.only("sec-fetch-site") not in ("same-origin", "none", ""):
            return _refused("Another site asked for this page. Type its address, or open the link of the terminal.")
        if scope["method"] in CHANGING and not self._is_ours(headers):
            return _refused("This form was not sent from a page of the studio.")
        if _size(headers) > (self.largest if _is_upload(scope) else LARGEST_FORM):
            return _too_large()
        if access is Access.CURATOR and session.is_locked:
            return _refused("Locked. Press Enter in the terminal for a new link.")
        if not headers.only("x-studio-poll"):  # a page that looks after a run by itself is nobody's presence
            session.touch()
        return None

    def _is_ours(self, headers: "_Headers") -> bool:
        origins = [f"http://{host}" for host in self.session.hosts]
        return headers.only("sec-fetch-site") == "same-origin" and headers.only("origin") in origins

    def _enter(self, scope: Scope) -> Response:
        """Exchange the token for the cookie; nothing else happens."""
        given = scope["query_string"].decode("latin-1").removeprefix("token=")
        if not self.session.take_token(given):
            return _refused("This link was used or is too old. Press Enter in the terminal for a new one.")
        self.session.unlock()
        reply = RedirectResponse(f"{self.session.path}/", status_code=303)
        reply.set_cookie(
            self.session.cookie, self.session.secret, path=f"{self.session.path}/", httponly=True, samesite="strict"
        )
        return reply


class _Headers:
    """The headers of a request; one that is sent twice counts as absent."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def only(self, name: str) -> str:
        values = self._values.get(name, [])
        return values[0] if len(values) == 1 else ""

    def cookie(self, name: str) -> str:
        pairs = (pair.strip().partition("=") for line in self._values.get("cookie", []) for pair in line.split(";"))
        found = [value for key, _, value in pairs if key == name]
        return found[0] if len(found) == 1 else ""


def _below(path: str, scope: Scope) -> str | None:
    """The part of the address below the secret path; None if it does not lie there, or is not plainly written.

    Escapes, backslashes and steps upwards are in none of our addresses, so that no second reading of one is possible.
    """
    asked = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    if not _PLAIN.fullmatch(asked) or ".." in asked or "//" in asked:
        return None
    start = asked[: len(path)]
    return asked[len(path) :] if hmac.compare_digest(start.encode(), path.encode()) else None


def _size(headers: _Headers) -> int:
    text = headers.only("content-length")
    return int(text) if text.isdecimal() and len(text) < 19 else 0  # none: counted while it comes


def _is_upload(scope: Scope) -> bool:
    return str(scope["path"]).endswith("/upload")


class TooLargeError(Exception):
    """A body grew beyond its limit while it was read."""


def _limited(receive: Asgi, limit: int) -> Asgi:
    read = 0

    async def counted() -> Any:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise TooLargeError
        return message

    return counted


def _with_headers(send: Asgi) -> Asgi:
    """Every answer gets the headers; a page may allow itself one more style or its own pictures."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            named = {name.lower(): value for name, value in message["headers"]}
            extra = named.pop(b"x-allow", b"").decode("latin-1")
            policy = _POLICY.format(style=extra, image=" data:" if extra else "")
            added = _HEADERS | {"Content-Security-Policy": policy}
            for name in (b"server", b"date", *(key.lower().encode() for key in added)):
                named.pop(name, None)
            cookies = [(name, value) for name, value in message["headers"] if name.lower() == b"set-cookie"]
            named.pop(b"set-cookie", None)
            message["headers"] = [
                *named.items(),
                *cookies,
                *((key.lower().encode(), value.encode("latin-1")) for key, value in added.items()),
            ]
        await send(message)

    return sending


def _refused(why: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)


def _too_large() -> Response:
    return _refused("This is larger than the studio takes.", 413)
