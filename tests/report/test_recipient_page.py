"""The page for recipients, in a real browser: hashes and signature, one byte flipped, a forged key, nothing loaded."""

import base64
import json
import re
import shutil

import pytest

from dpgm.cli.app import load_commands, run
from dpgm.privacy.certificate import About
from dpgm.privacy.keys import create_keys, key_fingerprint, read_private_key
from release_data import some_release

load_commands()
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    folder = tmp_path_factory.mktemp("office")
    key, _ = create_keys(folder / "office")
    create_keys(folder / "stranger")
    some_release(about=About("Visits <b>2025</b>")).save(folder / "release", key=read_private_key(key))
    assert run(["recipient-page", "--out", str(folder / "check.html")]) == 0
    return folder


@pytest.fixture
def opened(office, browser):
    page = browser.new_page(viewport={"width": 360, "height": 800})
    trouble = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url))
    page.goto((office / "check.html").as_uri())
    yield page
    page.close()
    assert [text for text in trouble if not text.startswith("file:")] == []


def judged(page, release, key=None):
    page.set_input_files("#folder", release)
    if key is not None:
        page.set_input_files("#key", key)
    return seen(page, "Do not use|The files are")


def seen(page, words):
    """Verdict and checks, once the verdict has these words."""
    page.locator("#verdict").filter(has_text=re.compile(words)).wait_for()
    return page.text_content("#verdict"), page.text_content("#checks")


def test_a_signed_release_is_the_offices(opened, office):
    judged(opened, office / "release", office / "office.pub")
    _, checks = seen(opened, "holder")
    assert "✓ model.safetensors is unchanged" in checks
    assert key_fingerprint(read_private_key(office / "office.key").public_key()) in opened.text_content("#checks")
    assert "Visits <b>2025</b>" in opened.text_content("#facts")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360


def test_without_a_key_nobody_vouches(opened, office):
    verdict, checks = judged(opened, office / "release")
    assert "Who wrote it is not known" in verdict
    assert "not checked" in checks


def test_the_key_of_somebody_else_is_refused(opened, office):
    judged(opened, office / "release", office / "stranger.pub")
    seen(opened, "Do not use")
    assert "none of the signatures is by this key" in opened.text_content("#checks")


def test_the_signature_of_another_certificate_is_refused(opened, office, tmp_path):
    shutil.copytree(office / "release", tmp_path / "release")
    path = tmp_path / "release" / "certificate.json"
    path.write_text(path.read_text().replace('"unit": "row"', '"unit": "person"'))
    judged(opened, tmp_path / "release", office / "office.pub")
    seen(opened, "Do not use")
    assert "about another certificate" in opened.text_content("#checks")


def test_a_forged_signature_is_refused(opened, office, tmp_path):
    shutil.copytree(office / "release", tmp_path / "release")
    path = tmp_path / "release" / "certificate.intoto.jsonl"
    envelope = json.loads(path.read_text())
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    path.write_text(json.dumps(envelope))
    judged(opened, tmp_path / "release", office / "office.pub")
    seen(opened, "Do not use")
    assert "is not by it" in opened.text_content("#checks")


@pytest.mark.parametrize("name", ["model.safetensors", "README.md", "domain.json", "measurements.parquet"])
def test_one_flipped_bit_is_seen(opened, office, tmp_path, name):
    shutil.copytree(office / "release", tmp_path / "release")
    content = bytearray((tmp_path / "release" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "release" / name).write_bytes(content)
    verdict, checks = judged(opened, tmp_path / "release")
    assert verdict == "Do not use this release."
    assert f"{name} is not the file" in checks


def test_missing_and_foreign_files_are_seen(opened, office, tmp_path):
    shutil.copytree(office / "release", tmp_path / "release")
    (tmp_path / "release" / "README.md").unlink()
    (tmp_path / "release" / "evil.pkl").write_text("x")
    verdict, checks = judged(opened, tmp_path / "release")
    assert verdict == "Do not use this release."
    assert "README.md is missing" in checks
    assert "evil.pkl is not a file of a release" in checks


def test_a_folder_dropped_on_it_is_checked(opened, office):
    """As a browser hands over single files that are dropped."""
    names = ["certificate.json", "README.md", "domain.json"]
    texts = {name: (office / "release" / name).read_text() for name in names}  # no text: measurements.parquet
    opened.evaluate(
        """texts => { const bag = new DataTransfer();
        for (const [name, text] of Object.entries(texts)) bag.items.add(new File([text], name));
        document.getElementById('drop').dispatchEvent(new DragEvent('drop', {dataTransfer: bag})); }""",
        texts,
    )
    seen(opened, "Do not use")
    assert "model.safetensors is missing" in opened.text_content("#checks")
