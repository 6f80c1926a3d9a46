"""The report is complete, self-contained, escaped, marked for the curator, and fits the window of a real browser."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest

from dpgm.data.domain import Categorical, Domain, Image, Numeric
from dpgm.data.records import Records
from dpgm.errors import DpgmError
from dpgm.evaluation.evaluate import evaluate
from dpgm.privacy.certificate import Certificate
from dpgm.privacy.events import Mechanism
from dpgm.report.html import contact_sheet, length_chart, png_uri, render_report, write_report

ARTEFACTS = Path(__file__).parents[2] / "artefacts"


def sets(count=300, width=40, seed=0, prefix="a place with a rather long name, number "):
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random((count, 1)) < 0.5, np.linspace(0.6, 0.02, width), np.linspace(0.02, 0.3, width))
    names = [f"{prefix}{at}" for at in range(width)]
    return Records.from_dense(rng.random((count, width)) < chances, Domain.of_items(names))


def table(count=300, seed=0):
    rng = np.random.default_rng(seed)
    fields = [Numeric(f"a_rather_long_column_name_{at}", 0, 100, 5) for at in range(9)]
    domain = Domain((*fields, Categorical("label", ("no", "yes"))), label="label")
    codes = rng.integers(0, 5, (count, 9))
    label = (codes[:, 0] > 2).astype(int)
    offsets = np.array(domain.offsets)
    return Records.from_lists((np.column_stack([codes, label]) + offsets).tolist(), domain)


def pictures(count=200, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 10, count)
    images = rng.random((count, 12, 12)) < 0.1
    images[np.arange(count), label] = True
    domain = Domain((Image("image", 12, 12), Categorical("label", tuple(range(10)))), label="label")
    return Records.from_dense(np.concatenate([images.reshape(count, -1), np.eye(10)[label]], axis=1), domain)


def certificate(**changes):
    mechanisms = (Mechanism("item counts", 9.0), Mechanism("gradients", 1.1, 500, 0.01, "step"))
    values = {
        "epsilon": 1.0, "delta": 1e-6, "unit": "person", "records": 300, "planned": mechanisms,
        "mechanisms": mechanisms, "accountant": "test", "randomness": "operating system", "private": True,
        "software": "test", "model": {}, "files": {}, "statements": ("The items are public.",),
    }  # fmt: skip
    return Certificate(**(values | changes))


def frame(count=400, seed=0):
    """Numbers with a peak, dates, missing values, categories with long names, and more columns than are unfolded."""
    rng = np.random.default_rng(seed)
    columns = {
        "a_rather_long_column_name_of_money_spent": np.where(
            rng.random(count) < 0.6, 0, rng.lognormal(9, 2, count)
        ),
        "day": np.datetime64("2020-01-01") + rng.integers(0, 900, count).astype("timedelta64[D]"),
        "town": rng.choice([f"a town with a rather long name {at}" for at in range(12)], count),
        "gaps": np.where(rng.random(count) < 0.3, np.nan, rng.normal(size=count) * 1e6),
    }
    return pandas.DataFrame(columns | {f"count {at}": rng.poisson(3, count) for at in range(7)})


KINDS = {"sets": sets, "table": table, "images": pictures, "frame": frame}


@pytest.fixture(scope="module", params=list(KINDS))
def evaluation(request):
    make = KINDS[request.param]
    return evaluate(make(), make(seed=1))


def test_page_is_self_contained(evaluation):
    page = render_report(evaluation, certificate=certificate())
    assert "<script" not in page
    for address in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page):
        assert address.startswith(("data:", "#")), address
    assert "http" not in page


def test_every_section_on_real_data_says_curator_only(evaluation):
    page = render_report(evaluation, certificate=certificate())
    sections = re.findall(r"<section.*?</section>", page, re.S)
    assert len(sections) >= 6
    unmarked = [re.search(r"<h2[^>]*>(.*?)</h2>", text).group(1) for text in sections if "Curator only" not in text]
    assert unmarked == ["What is guaranteed", "What was not computed"]


def test_pictures_have_alternative_texts(evaluation):
    page = render_report(evaluation)
    assert all('alt="' in tag for tag in re.findall(r"<img[^>]*>", page))
    assert all("aria-label=" in tag for tag in re.findall(r"<svg[^>]*>", page))


def test_what_was_not_computed_is_listed(evaluation):
    page = render_report(evaluation)
    assert evaluation.not_computed
    for entry in evaluation.not_computed:
        assert entry.metric.replace("'", "&#39;") in page


def test_guarantee_comes_from_the_certificate(evaluation):
    page = render_report(evaluation, certificate=certificate())
    assert "factor of exp(epsilon) = 2.72" in page
    assert "1 in 1,000,000" in page
    assert "gradients" in page
    assert "NOT PRIVATE" not in page
    assert "NOT PRIVATE" in render_report(evaluation, certificate=certificate(private=False))
    assert "No certificate was given" in render_report(evaluation)


def test_columns_are_shown_with_charts_the_worst_first():
    shifted = frame(seed=1).assign(**{"count 3": 40})
    page = render_report(evaluate(frame(), shifted))
    cards = re.findall(r"<article.*?</article>", page, re.S)
    assert len(cards) == 11
    assert "count 3" in cards[0]
    assert "off" in cards[0]
    assert 'class="hist"' in cards[0]
    assert 'class="curve"' in cards[0]
    assert "count 3" in re.search(r"<h1>(.*?)</h1>", page).group(1)


def test_names_of_columns_and_values_are_escaped():
    hostile = frame().rename(columns={"town": "<script>x</script>"})
    hostile["<b>"] = "<img src=x onerror=y>"
    page = render_report(evaluate(hostile, hostile))
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "<b>" not in page


def test_labels_are_escaped():
    hostile = sets(prefix='<script>alert(1)</script><img src=x onerror="x()">"\'& ')
    page = render_report(evaluate(hostile, hostile))
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page


def test_report_appears_whole_or_not_at_all(tmp_path):
    made = evaluate(sets(), sets(seed=1))
    write_report(made, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises((DpgmError, OSError)):
        write_report(made, tmp_path / "missing" / "report.html")


def test_images_are_valid_png():
    import base64
    import io

    from PIL import Image as Pillow

    sheet = contact_sheet(np.eye(14)[None].repeat(5, axis=0), 3)
    decoded = Pillow.open(io.BytesIO(base64.b64decode(png_uri(sheet).split(",")[1])))
    assert np.array_equal(np.asarray(decoded), sheet)
    assert sheet[1, 1] == 0  # ink is dark
    assert sheet[0, 0] == 255


@pytest.mark.parametrize("longest", [1, 5, 30, 400])
def test_length_bars_cover_every_record(longest):
    rng = np.random.default_rng(0)
    rows = [np.arange(rng.integers(0, longest + 1)).tolist() for _ in range(100)]
    records = Records.from_lists(rows, Domain.of_items(longest))
    chart = length_chart(evaluate(records, records))
    assert sum(bar["real"] for bar in chart["bars"]) == pytest.approx(1.0)
    assert len(chart["bars"]) <= 26


def test_tiny_data_still_gives_a_page():
    one = Records.from_lists([[0]], Domain.of_items(2))
    assert "</html>" in render_report(evaluate(one, one))
    empty = Records.from_lists([[], []], Domain.of_items(2))
    assert "</html>" in render_report(evaluate(empty, empty))


@pytest.mark.browser
def test_page_fits_the_window_and_logs_nothing_in_a_browser(evaluation, browser, tmp_path):
    path = tmp_path / "report.html"
    write_report(evaluation, path, certificate=certificate())
    ARTEFACTS.mkdir(exist_ok=True)
    for label, width, scheme in (("desktop", 1280, "light"), ("phone", 360, "dark")):
        trouble = []
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message, seen=trouble: seen.append(message.text))
        page.on("pageerror", lambda error, seen=trouble: seen.append(str(error)))
        page.on("request", lambda request, seen=trouble: seen.append(request.url))
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(element => element.open = true)")
        page.screenshot(path=ARTEFACTS / f"report-{evaluation.data.kind}-{label}.png", full_page=True)
        overflowing = page.evaluate(OVERFLOW)
        page.close()
        assert [text for text in trouble if not text.startswith(("file:", "data:"))] == []
        assert overflowing == []


# Elements that overflow the window, except in regions that scroll on purpose or are visually hidden.
OVERFLOW = """() => [...document.body.querySelectorAll('*')]
  .filter(e => !e.closest('.scroll') && !e.closest('.hidden') && !e.closest('.skip') && !e.closest('svg'))
  .filter(e => { const box = e.getBoundingClientRect();
                 return box.width && (box.right > innerWidth + 1 || box.left < -1 || e.scrollWidth > e.clientWidth + 1
                                      && getComputedStyle(e).display !== 'inline'); })
  .map(e => e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40))"""


@pytest.mark.browser
def test_an_overflowing_page_would_be_noticed(browser):
    page = browser.new_page(viewport={"width": 360, "height": 900})
    page.set_content(
        "<body><p style='width:500px'>too wide</p><div style='width:50px'><b>averyverylongword</b></div>"
    )
    found = page.evaluate(OVERFLOW)
    page.close()
    assert any("too wide" in text for text in found)
    assert any("averyverylong" in text for text in found)
