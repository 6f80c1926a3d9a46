"""Render an evaluation as one self-contained HTML page."""

import math
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from dpgm import __version__
from dpgm.data.atomic import atomic_file
from dpgm.evaluation.evaluate import Evaluation
from dpgm.evaluation.raw_columns import value_text
from dpgm.evaluation.verdict import column_faults, percent, share_text, verdict
from dpgm.privacy.certificate import Certificate
from dpgm.report import sections

_OPEN_CARDS = 8  # columns shown at once; the others unfold
_NAMED_BARS = 7  # categories shown by name


def write_report(evaluation: Evaluation, path: str | Path, *, certificate: Certificate | None = None) -> None:
    """Write the report; the file needs nothing else to be read.

    Args:
        evaluation: what `evaluate` returned.
        path: the HTML file to write; it appears whole or not at all.
        certificate: of the release the synthetic records came from, to explain its guarantee.

    Privacy: the page is for the curator only; it shows numbers computed on the real data, and some real records.
    """
    page = render_report(evaluation, certificate=certificate)
    with atomic_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render_report(evaluation: Evaluation, *, certificate: Certificate | None = None) -> str:
    """The page as text."""
    return str(
        _template().render(
            evaluation=evaluation,
            verdict=verdict(evaluation),
            tiles=sections.tiles(evaluation),
            queries=sections.query_tables(evaluation),
            lengths=sections.length_chart(evaluation),
            together=sections.co_occurrence(evaluation),
            table=sections.table_columns(evaluation),
            columns=sections.columns(evaluation),
            open_cards=_OPEN_CARDS,
            named_bars=_NAMED_BARS,
            samples=sections.samples(evaluation),
            images=sections.images(evaluation),
            frequent=sections.frequent(evaluation),
            noun=sections.noun(evaluation),
            extent=sections.extent(evaluation),
            certificate=certificate,
            words=_words(certificate),
            version=__version__,
        )
    )


def _words(certificate: Certificate | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    return {
        "paragraphs": epsilon_in_words(certificate.epsilon, certificate.delta, certificate.unit),
        "belief": belief(certificate.epsilon),
        "factor": factor(certificate.epsilon),
    }


@cache
def _template() -> jinja2.Template:
    folder = resources.files("dpgm.report")
    loader = jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals["value_text"] = value_text
    environment.filters |= {
        "percent": percent,
        "share_text": share_text,
        "faults": column_faults,
        "figures": sections.column_figures,
        "whole_numbers": lambda text: text.replace(" %", "\u00a0%"),  # never at the start of a line
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "share": lambda share: f"{100 * share:.3g} %",
        "thousands": lambda number: f"{number:,}",
    }
    return environment.get_template("report.html.j2")


def epsilon_in_words(epsilon: float, delta: float, unit: str) -> tuple[str, ...]:
    """The guarantee as three plain paragraphs."""
    chance = f"1 in {1 / delta:,.0f}" if delta > 0 else "0"
    return (
        f"Whatever anyone infers from the release about one {unit}, they could have inferred almost as well had that "
        f"{unit} been left out: no probability grows by more than a factor of exp(epsilon) = {factor(epsilon)}, apart "
        f"from an event of probability delta ({chance}).",
        "This holds whatever else they know, and however many synthetic records are drawn.",
        f"{strength(epsilon)} The smaller epsilon, the stronger the protection and the larger the noise.",
    )


def belief(epsilon: float) -> str:
    """How far a suspicion can grow, starting from an even chance.

    >>> belief(1.0)
    '73 %'
    """
    return f"{100 / (1 + math.exp(-epsilon)):.0f} %" if epsilon < 7 else "almost certainty"


def factor(epsilon: float) -> str:
    """exp(epsilon), readable.

    >>> factor(1.0)
    '2.72'
    """
    return f"{math.exp(epsilon):.3g}" if epsilon < 14 else "more than a million"


def strength(epsilon: float) -> str:
    """How strong a guarantee of that size is taken to be."""
    if epsilon <= 1:
        return "An epsilon of at most 1 is commonly regarded as strong protection."
    if epsilon <= 3:
        return "An epsilon between 1 and 3 is commonly regarded as solid protection."
    if epsilon <= 10:
        return "An epsilon between 3 and 10 is a moderate guarantee."
    return "An epsilon above 10 promises little in theory."
