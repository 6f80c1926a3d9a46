"""The routes of the studio, and the server: on this computer alone, at a port of the system's choice."""

import asyncio
import io
import math
import re
import socket as sockets
import sys
import threading
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

from dpgm.errors import DpgmError, UsageError
from dpgm.studio import actions, library, pages
from dpgm.studio.guard import LARGEST_FORM, MOST_FIELDS, Access, Guard, Session, TooLargeError
from dpgm.studio.pages import Desk, Page
from dpgm.studio.runs import Runs
from dpgm.studio.workspace import Project, Workspace

LARGEST_UPLOAD = 2 * 2**30  # bytes; larger files are put into the served folder
_LATER = 20.0  # seconds between looks at the helper
_CONNECTIONS = 100
_STATIC = {"app.css": "text/css", "studio.js": "text/javascript", "icon.svg": "image/svg+xml"}
Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Route:
    """What is answered at an address, and to whom."""

    method: str
    pattern: str  # below the secret path; {project}, {id} and {name} stand for a part
    access: Access
    answer: Handler
    kind: str = "page"  # page, action, upload or file

    @property
    def matcher(self) -> re.Pattern[str]:
        """The addresses; pages have a twin that ends in .json."""
        return _matcher(self.pattern, self.kind == "page")


@cache
def _matcher(pattern: str, twin: bool) -> re.Pattern[str]:
    known = {"project": "[0-9a-f]{8}", "id": "[0-9a-f]{8,16}", "name": "[a-z.-]{1,30}"}
    parts = re.sub(r"\{(\w+)\}", lambda part: f"(?P<{part[1]}>{known[part[1]]})", pattern.replace(".", r"\."))
    return re.compile(parts + (r"(?P<twin>\.json)?" if twin else ""))


@dataclass(frozen=True)
class Found:
    """A route with the parts of the address that was asked for."""

    route: Route
    parts: dict[str, str | None]

    @property
    def access(self) -> Access:
        """Whom it answers."""
        return self.route.access


async def static(desk: Desk, request: Request, name: str) -> Response:
    """Style and script."""
    if name not in _STATIC:
        raise HTTPException(404)
    text = resources.files("dpgm.studio").joinpath("static", name).read_bytes()
    return Response(text, media_type=_STATIC[name])


async def certificate(desk: Desk, request: Request, project: Project) -> Response:
    """The certificate of a release of ours, as a page."""
    return _own_style(await desk.library.call(library.certificate_text, str(project.path("release"))))


async def certificate_of(desk: Desk, request: Request, id: str) -> Response:
    """The certificate of a release of the folder, written anew from what was checked."""
    path = desk.workspace.releases().get(id)
    if path is None:
        raise UsageError("there is no such release; see the list on the first page.")
    return _own_style(await desk.library.call(library.certificate_text, str(desk.workspace.root / path)))


def _report(name: str) -> Handler:
    async def answer(desk: Desk, request: Request, project: Project) -> Response:
        return _own_style(_file(project, name).read_text("utf-8"))

    return answer


def _kept(name: str, kind: str) -> Handler:
    async def answer(desk: Desk, request: Request, project: Project) -> Response:
        return FileResponse(_file(project, name), filename=name, media_type=kind)

    return answer


async def release_zip(desk: Desk, request: Request, project: Project) -> Response:
    """The release folder, to be handed out."""
    _file(project, "release/certificate.json")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(project.path("release").iterdir()):
            archive.write(path, f"release/{path.name}")
    return _download(packed.getvalue(), "release.zip", "application/zip")


async def office_key(desk: Desk, request: Request) -> Response:
    """The public key that recipients check signatures with."""
    path = desk.workspace.home / "office.pub"
    if not path.is_file():
        raise HTTPException(404)
    return _download(path.read_bytes(), "office.pub", "application/x-pem-file")


async def recipients(desk: Desk, request: Request) -> Response:
    """The page on which recipients check a release."""
    page = resources.files("dpgm.report").joinpath("recipient.html").read_bytes()
    return _download(page, "check-release.html", "text/html")


def _download(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _own_style(text: str) -> Response:
    """A page with a style and pictures of its own, and without scripts."""
    return HTMLResponse(text, headers={"X-Allow": " 'unsafe-inline'"})


def _file(project: Project, name: str) -> Path:
    path = project.path(name)
    if not path.is_file():
        raise UsageError("this file is not there yet.")
    return path


async def _budget(desk: Desk, request: Request, project: Project) -> Page:
    typed = dict(request.query_params)
    return await pages.budget_page(desk, project, typed)


def _of(page: Callable[..., Awaitable[Page]]) -> Handler:
    async def answer(desk: Desk, request: Request, **parts: Any) -> Page:
        return await page(desk, **parts)

    return answer


_PROJECT = "/projects/{project}"
ROUTES = (
    Route("GET", "/static/{name}", Access.OPEN, static, "file"),
    Route("GET", "/", Access.SAFE, _of(pages.home_page)),
    Route("GET", "/ledgers/{id}", Access.SAFE, _of(pages.ledger_page)),
    Route("GET", "/open/{id}", Access.SAFE, _of(pages.opened_page)),
    Route("GET", "/open/{id}/certificate", Access.SAFE, certificate_of, "file"),
    Route("GET", "/office.pub", Access.SAFE, office_key, "file"),
    Route("GET", "/check-release.html", Access.SAFE, recipients, "file"),
    Route("POST", "/lock", Access.CHANGE, actions.lock, "action"),
    Route("POST", "/projects/new", Access.CHANGE, actions.new_project, "action"),
    Route("GET", f"{_PROJECT}/data", Access.CURATOR, _of(pages.data_page)),
    Route("GET", f"{_PROJECT}/fields", Access.CURATOR, _of(pages.fields_page)),
    Route("GET", f"{_PROJECT}/budget", Access.SAFE, _budget),
    Route("GET", f"{_PROJECT}/plan", Access.SAFE, _of(pages.plan_page)),
    Route("GET", f"{_PROJECT}/run", Access.SAFE, _of(pages.run_page)),
    Route("GET", f"{_PROJECT}/compare", Access.CURATOR, _of(pages.compare_page)),
    Route("GET", f"{_PROJECT}/release", Access.SAFE, _of(pages.release_page)),
    Route("GET", f"{_PROJECT}/certificate", Access.SAFE, certificate, "file"),
    Route("GET", f"{_PROJECT}/report", Access.CURATOR, _report("report.html"), "file"),
    Route("GET", f"{_PROJECT}/rehearsal", Access.SAFE, _report("rehearsal/report.html"), "file"),
    Route("GET", f"{_PROJECT}/plan-file", Access.SAFE, _kept("plan.json", "application/json"), "file"),
    Route("GET", f"{_PROJECT}/synthetic.csv", Access.SAFE, _kept("synthetic.csv", "text/csv"), "file"),
    Route("GET", f"{_PROJECT}/release.zip", Access.SAFE, release_zip, "file"),
    Route("POST", f"{_PROJECT}/data", Access.CHANGE, actions.save_data, "action"),
    Route("POST", f"{_PROJECT}/upload", Access.CHANGE, actions.upload, "upload"),
    Route("POST", f"{_PROJECT}/fields", Access.CHANGE, actions.save_fields, "action"),
    Route("POST", f"{_PROJECT}/budget", Access.CHANGE, actions.save_budget, "action"),
    Route("POST", f"{_PROJECT}/forecast", Access.CHANGE, actions.start_forecast, "action"),
    Route("POST", f"{_PROJECT}/rehearse", Access.CHANGE, actions.start_rehearsal, "action"),
    Route("POST", f"{_PROJECT}/spend", Access.SPEND, actions.spend, "action"),
    Route("POST", f"{_PROJECT}/resume", Access.SPEND, actions.resume, "action"),
    Route("POST", f"{_PROJECT}/stop", Access.CHANGE, actions.stop, "action"),
    Route("POST", f"{_PROJECT}/again", Access.CHANGE, actions.again, "action"),
    Route("POST", f"{_PROJECT}/compare", Access.CHANGE, actions.start_comparison, "action"),
    Route("POST", f"{_PROJECT}/sample", Access.CHANGE, actions.draw_sample, "action"),
    Route("POST", f"{_PROJECT}/sign", Access.CHANGE, actions.sign_release, "action"),
)


def find(method: str, path: str) -> Found | None:
    """The route of an address."""
    asked = "GET" if method == "HEAD" else method
    for route in ROUTES:
        matched = route.matcher.fullmatch(path) if route.method == asked else None
        if matched is not None:
            return Found(route, matched.groupdict())
    return None


class Studio:
    """The application behind the guard: what was found is answered."""

    def __init__(self, desk: Desk, session: Session, *, debug: bool = False) -> None:
        self.desk = desk
        self.session = session
        self.debug = debug

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        reply = await self._reply(request, scope["found"])
        await reply(scope, receive, send)

    async def _reply(self, request: Request, found: Found) -> Response:
        parts: dict[str, Any] = {name: part for name, part in found.parts.items() if name != "twin"}
        try:
            if "project" in parts:
                parts["project"] = self.desk.workspace.project(parts["project"])
            if found.route.kind in ("action", "upload"):
                return await self._act(request, found.route, parts)
            made = await found.route.answer(self.desk, request, **parts)
            if isinstance(made, Page):
                return self._shown(made, as_json=found.parts.get("twin") is not None)
            return made  # type: ignore[no-any-return]
        except (TooLargeError, MultiPartException):
            return self._failed("This is larger than the studio takes, or not a form.", 413, request, found)
        except HTTPException as error:
            return self._failed(str(error.detail), error.status_code, request, found)
        except DpgmError as error:
            return self._failed(str(error), 422, request, found, error.kind)
        except Exception as error:
            if self.debug:
                raise
            why = f"{type(error).__name__}: a fault of dpgm; start `dpgm --debug serve` to see where."
            return self._failed(why, 500, request, found)

    async def _act(self, request: Request, route: Route, parts: dict[str, Any]) -> Response:
        if route.kind == "upload":
            async with request.form(max_files=1, max_fields=10, max_part_size=LARGEST_FORM) as form:
                target = await route.answer(self.desk, form=None, file=form.get("file"), **parts)
        elif route.answer is actions.lock:
            self.session.locked = True
            target = ""
        else:
            async with request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=LARGEST_FORM) as form:
                values = {name: value for name, value in form.items() if isinstance(value, str)}
            target = await route.answer(self.desk, form=values, **parts)
        return RedirectResponse(f"{self.session.path}/{target}", status_code=303)

    def _shown(self, page: Page, *, as_json: bool, status: int = 200) -> Response:
        values = page.to_json()
        if as_json:
            return JSONResponse(values, status)
        text = _templates().get_template(f"{page.template}.html.j2").render(values, base=f"{self.session.path}/")
        return HTMLResponse(text, status)

    def _failed(self, why: str, status: int, request: Request, found: Found, kind: str = "E-USAGE") -> Response:
        """A page that names cause and remedy, and leads back."""
        back = "/".join(request.url.path.split("/")[3:-1]) + "/data" if "project" in found.parts else ""
        if found.route.method == "POST" and request.headers.get("referer", "").startswith(str(request.base_url)):
            back = request.headers["referer"].split(self.session.path, 1)[-1].lstrip("/").partition("?")[0]
        body = {"why": why, "kind": kind, "back": back}
        return self._shown(
            Page("failed", "This did not work", pages.FROM_PLAN, "", body), as_json=False, status=status
        )


@cache
def _templates() -> jinja2.Environment:
    def load(name: str) -> str | None:
        home = resources.files("dpgm.synthesis" if name == "odds.html.j2" else "dpgm.studio")
        path = home.joinpath(name) if name == "odds.html.j2" else home.joinpath("templates", name)
        return path.read_text("utf-8") if path.is_file() else None

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "thousands": lambda number: f"{number:,}",
        "people": lambda figure: min(100, math.ceil(figure)),
        "visible": visible,
        "visible_lines": lambda text: "\n".join(map(visible, str(text).splitlines())),
    }
    return environment


def visible(text: object) -> str:
    """A name from the data with control and direction characters made visible."""
    return "".join(one if one.isprintable() else f"\u2423{ord(one):x}" for one in str(text))


def application(desk: Desk, session: Session, *, debug: bool = False, largest: int = LARGEST_UPLOAD) -> Guard:
    """The studio behind its guard."""
    return Guard(Studio(desk, session, debug=debug), session, find, largest)


def serve_folder(
    folder: Path, *, debug: bool = False, largest: int = LARGEST_UPLOAD, say: Callable[[str], None]
) -> None:
    """Serve a folder until Ctrl-C; `say` prints the link, and another for every line on standard input."""
    import uvicorn

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder with your data.")
    with sockets.socket(sockets.AF_INET, sockets.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # from now on, so that the link works at once
        port = listening.getsockname()[1]
        workspace, session = Workspace(folder), Session(port)
        workspace.open(f"http://127.0.0.1:{port}")
        desk = Desk(workspace, Runs(workspace), library.Library())
        settings = uvicorn.Config(
            application(desk, session, debug=debug, largest=largest),
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            ws="none",
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=5,
            h11_max_incomplete_event_size=2**15,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(settings)

        def link() -> None:
            say(f"open http://127.0.0.1:{port}{session.path}/enter?token={session.new_token()}")

        def renew() -> None:
            for _ in sys.stdin:
                link()

        try:
            with suppress(KeyboardInterrupt):  # also one that comes before the server listens for it
                link()
                say("the link works once, within two minutes; press Enter here for a new one, Ctrl-C to end")
                threading.Thread(target=renew, daemon=True).start()
                asyncio.run(_until_stopped(server, desk, listening))
        finally:
            desk.runs.stop_all()
            desk.library.close()
            workspace.clear_temporary()


async def _until_stopped(server: Any, desk: Desk, listening: sockets.socket) -> None:
    async def look_after() -> None:
        while True:
            await asyncio.sleep(_LATER)
            desk.library.close_if_idle()

    caring = asyncio.create_task(look_after())
    with suppress(KeyboardInterrupt):
        await server.serve(sockets=[listening])
    caring.cancel()
