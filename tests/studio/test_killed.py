"""Server or worker killed at random times: the fit is resumed and certified, and the ledger never has less than was measured.

One window remains, by design: a mechanism is charged before its noise is drawn, so a worker that is killed between the
charge and the answer's arrival on disk has spent that mechanism for nothing. The fit then says so and is not resumed.
"""

import http.client
import json
import os
import random
import signal
import time
from urllib.parse import urlencode, urlsplit

import pytest

import dpgm
from dpgm.privacy.ledger import Ledger
from studio_server import Served

pytest.importorskip("starlette", reason="the extra `studio` is not installed; run `make install`")

LOST = "their budget is spent"
ITEMS = "abcdef"


class Script:
    """Somebody at the studio without a browser: the link's cookie, forms and the JSON of pages."""

    def __init__(self, served):
        self.served = served
        self.enter()

    def enter(self):
        parts = urlsplit(self.served.link)
        self.host, self.path = parts.netloc, parts.path.removesuffix("/enter")
        reply = self._send("GET", f"/enter?{parts.query}", {})
        self.cookie = reply.getheader("set-cookie").partition(";")[0]

    def _send(self, method, path, headers, body=None):
        connection = http.client.HTTPConnection(self.host, timeout=300)
        connection.request(method, self.path + path, body, headers)
        reply = connection.getresponse()
        self.text = reply.read().decode()
        connection.close()
        return reply

    def page(self, path):
        assert self._send("GET", f"{path}.json", {"Cookie": self.cookie}).status == 200, self.text
        return json.loads(self.text)["body"]

    def post(self, path, **form):
        headers = {"Cookie": self.cookie, "Sec-Fetch-Site": "same-origin", "Origin": f"http://{self.host}"}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        reply = self._send("POST", path, headers, urlencode(form))
        assert reply.status == 303, self.text


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "office"
    folder.mkdir()
    draw = random.Random(1)
    rows = [[item for item in ITEMS if draw.random() < 0.4] or ["a"] for _ in range(400)]
    (folder / "baskets.csv").write_text(
        "who,item\n" + "".join(f"{who},{item}\n" for who, row in enumerate(rows) for item in row)
    )
    served = Served(folder)
    yield served, Script(served)
    served.close()


def begin(served, script):
    """A fit that was just started; its project and the ledger of all of them."""
    from dpgm.studio.workspace import Workspace

    desk = Workspace(served.folder)
    if not desk.ledgers():
        Ledger.create(desk.new_ledger("people")[1], 100.0, 1e-4)
    id = next(iter(desk.ledgers()))
    answers = {"several": "yes", "person": "who", "rows": "items", "item": "item", "records": 400, "epsilon": 1.0}
    project = desk.new_project("killed", file="baskets.csv", ledger=id, **answers)
    project.path("domain.yaml").write_text(f"fields: [{{name: item, kind: items, items: [{', '.join(ITEMS)}]}}]\n")
    shown = script.page(f"/projects/{project.id}/plan")
    form = {"hash": shown["planned"]["hash"], "head": shown["planned"]["ledger"]["head"], "once": shown["once"]}
    script.post(f"/projects/{project.id}/spend", amount="1", **form)
    return project, Ledger.open(desk.ledger(id))


def end(script, project):
    """Resume until it is finished or says why not."""
    while True:
        run = script.page(f"/projects/{project.id}/run")["fit"]
        if run["state"] == "interrupted":
            script.post(f"/projects/{project.id}/resume")
        elif not run["alive"]:
            return run
        time.sleep(0.2)


def kill_once(served, script, victim, delay):
    project, ledger = begin(served, script)
    time.sleep(delay)
    if victim == "server":
        served.kill()
        served.start()
        script.enter()
    else:
        try:
            os.kill(served.run_of(project.folder)["pid"], signal.SIGKILL)
        except ProcessLookupError:
            victim = "nobody"
    run = end(script, project)
    entry = ledger.entries()[-1]
    runs = {one.name: one.count for one in entry.mechanisms}
    assert all(charged <= runs[name] for name, charged in entry.progress.items())
    assert entry.charged == entry.mechanisms  # all of the plan stays charged, whatever happened
    if run["state"] == "finished":
        verified = dpgm.verify(project.path("release"))
        assert verified.ok
        assert verified.certificate.epsilon <= 1.0
        assert entry.state == "committed"
        return victim, "finished"
    assert run["state"] == "failed"
    assert LOST in run["message"], run["message"]
    assert not project.path("release").exists()
    return victim, "lost"


@pytest.mark.parametrize(("victim", "delay"), [("server", 1.0), ("worker", 0.5)])
def test_a_fit_survives_a_kill(office, victim, delay):
    assert kill_once(*office, victim, delay)[1] in ("finished", "lost")


@pytest.mark.slow
def test_fifty_kills_at_random_times(office):
    """None ends otherwise; a server that is killed never costs an answer, for its worker finishes what it is at."""
    draw = random.Random(7)
    began = time.monotonic()
    project, _ = begin(*office)
    assert end(office[1], project)["state"] == "finished"
    usual = time.monotonic() - began
    outcomes = [kill_once(*office, ("server", "worker")[at % 2], draw.uniform(0, usual)) for at in range(50)]
    print({one: outcomes.count(one) for one in set(outcomes)})
    assert ("server", "lost") not in outcomes
    assert sum(result == "lost" for _, result in outcomes) <= 12
