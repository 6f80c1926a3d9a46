"""Who may ask the studio for what: attacks are refused before anything happens, and the ledger stays as it is."""

import hashlib
import re

import pytest

from dpgm.privacy.ledger import Ledger
from dpgm.studio import server
from dpgm.studio.guard import IDLE_SECONDS, TOKEN_SECONDS, Access
from studio_desk import HOST, OWN, PORT, Client

SAFE = {"host": HOST, "sec-fetch-site": "same-origin"}


@pytest.fixture
def client(tmp_path):
    (tmp_path / "secret.txt").write_text("a row that nobody may see")
    return Client(tmp_path)


def state_of(client):
    """Every file of the folder, so that nothing was written."""
    files = (
        path for path in sorted(client.workspace.root.rglob("*")) if path.is_file() and path.name != "server.lock"
    )
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def spending(client):
    """A project with a ledger, so that a fit could be started."""
    id, path = client.workspace.new_ledger("people")
    Ledger.create(path, 3.0, 1e-6)
    project = client.workspace.new_project("p", ledger=id, epsilon=1.0, file="secret.txt", records=10, several="no")
    return f"/projects/{project.id}"


CHANGES = [route for route in server.ROUTES if route.method == "POST"]
READS = [route for route in server.ROUTES if route.method == "GET" and route.access is not Access.OPEN]


def address(route, project="0123abcd"):
    parts = {"project": project, "id": "0123abcd", "name": "app.css"}
    return re.sub(r"\{(\w+)\}", lambda part: parts[part[1]], route.pattern)


# -- S16: the list of routes -----------------------------------------------------------------------------------------


def test_every_route_says_whom_it_answers_and_only_forms_change_anything():
    assert len(CHANGES) > 10
    for route in server.ROUTES:
        assert isinstance(route.access, Access)
        assert (route.method == "POST") == (route.access in (Access.CHANGE, Access.SPEND))
        assert (route.kind in ("action", "upload")) == (route.method == "POST")
    assert {route.pattern for route in server.ROUTES if route.access is Access.OPEN} == {"/static/{name}"}
    assert {route.pattern.split("/")[-1] for route in server.ROUTES if route.access is Access.SPEND} == {
        "spend",
        "resume",
    }


def test_pages_that_show_real_rows_are_the_curators():
    curator = {route.pattern.split("/")[-1] for route in server.ROUTES if route.access is Access.CURATOR}
    assert curator == {"data", "fields", "compare", "report"}


@pytest.mark.parametrize(
    "path", ["/nothing", "/projects", "/projects/0123abcd", "/static/../guard.py", "/projects/x/data"]
)
def test_what_is_no_route_is_not_there(client, path):
    assert client.get(path).status in (403, 404)


# -- W1: another host, also where it is mapped to this machine ----------------------------------------------------------

BAD_HOSTS = ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost", f"127.0.0.1:{PORT + 1}", f"127.0.0.2:{PORT}",
             f"[::1]:{PORT}", f"localhost.:{PORT}", f"127.0.0.1:{PORT}.evil.example", f"2130706433:{PORT}", ""]  # fmt: skip


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_another_host_is_refused_first_of_all(client, host):
    headers = {"host": host, "cookie": client.cookie, "sec-fetch-site": "same-origin", "origin": f"http://{host}"}
    for method, path in (("GET", "/"), ("GET", "/static/app.css"), ("POST", "/projects/new")):
        assert client.send(method, f"{client.session.path}{path}", headers).status == 403
    token = client.session.new_token()
    assert client.send("GET", f"{client.session.path}/enter?token={token}", headers).status == 403
    assert client.session.take_token(token)  # not even looked at


def test_no_host_and_two_hosts_are_refused(client):
    for headers in ([], [("host", HOST), ("host", HOST)], [("host", HOST), ("host", "evil.example")]):
        headers += [("cookie", client.cookie)]
        assert client.send("GET", f"{client.session.path}/", headers).status == 403


def test_both_names_of_this_host_are_answered(client):
    assert client.get("/").status == 200
    assert client.get("/", host=f"localhost:{PORT}").status == 200


# -- W2, W5, W9: other origins, other ports, text/plain and multipart ---------------------------------------------------

ORIGINS = [{"origin": "null"}, {"origin": "https://evil.example"}, {"origin": f"http://127.0.0.1:{PORT + 1}"},
           {"origin": f"https://{HOST}"}, {"origin": ""}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
           {"sec-fetch-site": "none"}, {"sec-fetch-site": ""}]  # fmt: skip


@pytest.mark.parametrize("forged", ORIGINS, ids=str)
@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"]
)
def test_forms_of_other_origins_change_nothing(client, spending, forged, kind):
    before = state_of(client)
    for path in ("/projects/new", f"{spending}/spend", f"{spending}/data"):
        reply = client.post(path, {"amount": "1", "name": "x"}, **forged | {"content-type": kind})
        assert reply.status == 403
    assert state_of(client) == before


def test_two_origins_count_as_none(client):
    headers = [*OWN.items(), ("cookie", client.cookie), ("origin", f"http://{HOST}")]
    assert client.send("POST", f"{client.session.path}/projects/new", headers).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_are_not_embedded_by_others(client, site):
    assert client.get("/", **{"sec-fetch-site": site}).status == 403


# -- W3, W14: tokens -------------------------------------------------------------------------------------------------


def enter(client, token):
    return client.send(
        "GET", f"{client.session.path}/enter?token={token}", {"host": HOST, "sec-fetch-site": "none"}
    )


def test_a_token_is_exchanged_once_for_a_cookie_of_the_secret_path(client):
    token = client.session.new_token()
    reply = enter(client, token)
    assert reply.status == 303
    assert reply.headers["location"] == f"{client.session.path}/"
    assert token not in reply.headers["location"]
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith(f"dpgm-{PORT}={client.session.secret};")
    assert {"HttpOnly", "SameSite=strict", f"Path={client.session.path}/"} <= set(cookie.split("; "))
    assert enter(client, token).status == 403


def test_a_token_is_old_after_two_minutes(client):
    token = client.session.new_token()
    client.now += TOKEN_SECONDS + 1
    assert enter(client, token).status == 403
    assert client.session.new_token() != token


@pytest.mark.parametrize("wrong", ["", "x", "token", "é"])
def test_a_wrong_token_voids_the_right_one(client, wrong):
    token = client.session.new_token()
    assert enter(client, wrong).status == 403
    assert enter(client, token).status == 403


def test_an_earlier_link_is_void_once_there_is_a_new_one(client):
    old, new = client.session.new_token(), client.session.new_token()
    assert enter(client, old).status == 403
    assert enter(client, client.session.new_token()).status == 303
    assert new != old


def test_a_token_opens_nothing_but_the_door(client, spending):
    """W4: with a token in the address, no page and no action answers."""
    before = state_of(client)
    token = client.session.new_token()
    for route in (*READS, *CHANGES):
        path = f"{client.session.path}{address(route)}?token={token}"
        assert client.send("GET", path, SAFE).status in (403, 404)
        assert client.send("POST", path, OWN).status in (403, 404)
    assert state_of(client) == before
    assert client.session.take_token(token)


COOKIES = [
    "",
    "dpgm-4321=",
    "dpgm-4321=x",
    "other=1",
    "dpgm-9999={secret}",
    "dpgm-4321={secret}x",
    "dpgm-4321={secret}; dpgm-4321=x",
]


@pytest.mark.parametrize("cookie", COOKIES)
def test_without_the_cookie_nothing_answers(client, cookie):
    cookie = cookie.format(secret=client.session.secret)
    for route in (*READS, *CHANGES):
        headers = OWN | {"cookie": cookie}
        assert client.send(route.method, f"{client.session.path}{address(route)}", headers).status == 403


def test_a_script_shows_the_secret_as_a_bearer(client):
    headers = {"host": HOST, "authorization": f"Bearer {client.session.secret}"}
    assert client.send("GET", f"{client.session.path}/.json", headers).status == 200
    for wrong in ("Bearer x", "Bearer ", client.session.secret[:-1], f"Basic {client.session.secret}"):
        headers = {"host": HOST, "authorization": wrong}
        assert client.send("GET", f"{client.session.path}/.json", headers).status == 403


# -- the secret path, and strange ways of writing addresses (W6) --------------------------------------------------------


def test_beside_the_secret_path_there_is_nothing(client):
    headers = SAFE | {"cookie": client.cookie}
    other = client.session.path[:-1] + ("0" if client.session.path[-1] != "0" else "1")
    for path in (
        "/",
        "/favicon.ico",
        "/static/app.css",
        "/s/",
        f"{other}/",
        client.session.path.upper() + "/",
        other,
    ):
        assert client.send("GET", path, headers).status == 403


STRANGE = ["/..%2fsecret.txt", "/static/..%2f..%2fguard.py", "/static/%2e%2e/guard.py", "/static/..%5cguard.py", "/C:/secret.txt",
           "/static/app.css%00", "//static/app.css", "/projects/0123abcd/../../secret.txt", "/%73tatic/app.css", "/static/./../guard.py",
           "/static/app.css;x", "/projects/0123abcd/data/", "/STATIC/app.css"]  # fmt: skip


@pytest.mark.parametrize("path", STRANGE)
def test_addresses_written_in_a_strange_way_are_refused(client, path):
    reply = client.send("GET", f"{client.session.path}{path}", SAFE | {"cookie": client.cookie})
    assert reply.status in (403, 404)
    assert "nobody may see" not in reply.text


def test_only_files_of_the_list_can_be_chosen_and_links_cannot(client, tmp_path):
    outside = tmp_path.parent / "outside.csv"
    outside.write_text("a,b\n1,2\n")
    (tmp_path / "link.csv").symlink_to(outside)
    (tmp_path / "folder").symlink_to(tmp_path.parent)
    (tmp_path / "real.csv").write_text("a,b\n1,2\n")
    project = client.follow(client.post("/projects/new", {"name": "x"}))
    files = client.page(project)["body"]["files"]
    assert list(files.values()) == ["real.csv"]
    for forged in ("real.csv", "../outside.csv", "/etc/passwd", "0" * 16):
        assert client.post(project, {"file": forged, "look": "yes"}).status == 422
    chosen = next(iter(files))
    assert client.post(project, {"file": chosen}).status == 303
    (tmp_path / "real.csv").unlink()
    (tmp_path / "real.csv").symlink_to(outside)  # swapped in after it was listed
    reply = client.post(project, {"look": "yes"})
    assert reply.status == 422
    assert "no longer where it was" in reply.text


# -- W4: reading changes nothing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_a_form_changes_anything(client, spending, method):
    before = state_of(client)
    for route in CHANGES:
        path = f"{client.session.path}{address(route, spending.split('/')[-1])}?amount=1&name=x"
        reply = client.send(method, path, OWN | {"cookie": client.cookie})
        assert reply.status == 404 or (method in ("GET", "HEAD") and reply.status in (200, 422))
    assert state_of(client) == before


# -- W7: sizes -----------------------------------------------------------------------------------------------------------


def test_a_form_beyond_the_cap_is_refused_before_it_is_read(client):
    reply = client.send(
        "POST",
        f"{client.session.path}/projects/new",
        OWN | {"cookie": client.cookie, "content-length": str(2**20 + 1)},
    )
    assert reply.status == 413


def test_a_body_that_lies_about_its_length_is_cut_off(client):
    kind = {"content-type": "application/x-www-form-urlencoded", "content-length": "10", "cookie": client.cookie}
    before = state_of(client)
    parts = [b"name=" + b"x" * 2**16 for _ in range(40)]
    assert client.send("POST", f"{client.session.path}/projects/new", OWN | kind, parts).status == 413
    assert state_of(client) == before


def multipart(parts):
    body = b"".join(b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part for part in parts)
    return body + b"--x--\r\n"


def test_ten_thousand_parts_are_refused(client):
    kind = {"content-type": "multipart/form-data; boundary=x", "cookie": client.cookie}
    body = multipart([(b"a%d" % at, b"1") for at in range(10_000)])
    reply = client.send("POST", f"{client.session.path}/projects/new", OWN | kind, body)
    assert reply.status in (400, 413)


def test_an_upload_beyond_the_cap_leaves_no_file(client):
    project = client.follow(client.post("/projects/new", {"name": "x"})).rsplit("/", 1)[0]
    before = state_of(client)
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n' + b"1," * 600_000
    kind = {"content-type": "multipart/form-data; boundary=x", "cookie": client.cookie}
    parts = [file[at : at + 2**16] for at in range(0, len(file), 2**16)]
    assert client.send("POST", f"{client.session.path}{project}/upload", OWN | kind, parts).status == 413
    assert state_of(client) == before


@pytest.mark.parametrize("name", ["../../evil.csv", "/etc/cron.d/x.csv", "C:\\evil.csv", "a.csv\x00.exe", ".csv"])
def test_an_upload_never_chooses_its_path(client, name):
    project = client.follow(client.post("/projects/new", {"name": "x"})).rsplit("/", 1)[0]
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n' % name.encode()
    kind = {"content-type": "multipart/form-data; boundary=x", "cookie": client.cookie}
    reply = client.send("POST", f"{client.session.path}{project}/upload", OWN | kind, head + b"a,b\r\n--x--\r\n")
    home = client.workspace.home / project.lstrip("/")
    kept = {path.name for path in home.iterdir()} - {"project.json"}
    assert reply.status in (303, 422)  # 422: an ending that no reader knows
    assert kept == ({"data.csv"} if reply.status == 303 else set())


def test_an_upload_of_an_unknown_kind_is_refused(client):
    project = client.follow(client.post("/projects/new", {"name": "x"})).rsplit("/", 1)[0]
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.exe"\r\n\r\nx\r\n--x--\r\n'
    kind = {"content-type": "multipart/form-data; boundary=x", "cookie": client.cookie}
    assert client.send("POST", f"{client.session.path}{project}/upload", OWN | kind, body).status == 422


# -- S6: headers on every answer, W10: framing ---------------------------------------------------------------------------

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


@pytest.mark.parametrize("path", ["/", "/static/app.css", "/nothing", "/projects/0123abcd/data", "/.json"])
@pytest.mark.parametrize("host", [HOST, "evil.example"])
def test_every_answer_has_the_headers(client, path, host):
    reply = client.get(path, host=host)
    assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS
    assert not [
        name for name in reply.headers if name.startswith("access-control") or name in ("server", "x-allow")
    ]


def test_a_page_with_a_style_of_its_own_still_runs_no_script(client, tmp_path):
    from release_data import some_release

    some_release().save(tmp_path / "release")
    id = next(iter(client.page("/")["body"]["releases"]))
    policy = client.get(f"/open/{id}/certificate").headers["content-security-policy"]
    assert "style-src 'self' 'unsafe-inline'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


# -- S12: the idle lock --------------------------------------------------------------------------------------------------


def test_pages_with_real_rows_lock_after_fifteen_minutes(client):
    data = client.follow(client.post("/projects/new", {"name": "x"}))
    assert client.get(data).status == 200
    client.now += IDLE_SECONDS + 1
    assert client.get(data).status == 403
    assert client.get("/").status == 200
    assert client.get(data).status == 403  # whoever comes back needs a new link
    assert enter(client, client.session.new_token()).status == 303
    assert client.get(data).status == 200


def test_a_page_that_looks_after_a_run_keeps_nothing_open(client):
    data = client.follow(client.post("/projects/new", {"name": "x"}))
    for _ in range(20):
        client.now += IDLE_SECONDS / 10
        client.get("/", **{"x-studio-poll": "1"})
    assert client.get(data).status == 403


def test_lock_now_locks_until_there_is_a_new_link(client):
    data = client.follow(client.post("/projects/new", {"name": "x"}))
    assert client.follow(client.post("/lock")) == "/"
    assert client.get("/").status == 200
    assert client.get(data).status == 403
