"""The certificate as a page to read, print and sign: one HTML file, rendered from `certificate.json` alone.

Because nothing else goes into it, `verify` renders it again and compares every byte. It has no script, loads nothing
and prints on two A4 pages.
"""

from functools import cache
from importlib import resources
from typing import Any

import jinja2

from dpgm.errors import DpgmError
from dpgm.privacy.certificate import Certificate
from dpgm.privacy.events import Mechanism
from dpgm.privacy.odds import WRONGLY
from dpgm.synthesis.explanation import explain_certificate, people, protected
from dpgm.synthesis.plan import in_words

PAGE_NAME = "certificate.html"


def certificate_page(certificate: Certificate) -> str:
    """The text of certificate.html, determined by the certificate."""
    model = str(certificate.model.get("kind"))
    return _template().render(
        certificate=certificate,
        protects=protected(certificate),
        explained=explain_certificate(certificate),
        wrongly=WRONGLY,
        mechanisms=[(mechanism, _measured(model, mechanism)) for mechanism in certificate.mechanisms],
        factor=_factor(certificate.epsilon),
    )


def _measured(model: str, mechanism: Mechanism) -> str:
    """What a mechanism measures, in words; its bare name if no such fit runs it, which `verify` refuses elsewhere."""
    try:
        return in_words(model, mechanism).sentence
    except (DpgmError, LookupError):
        return ""


def _factor(epsilon: float) -> str:
    return f"{2.718281828459045**epsilon:.3g}" if epsilon < 20 else "more than a hundred million"


@cache
def _template() -> jinja2.Template:
    return html_environment().get_template("certificate.html.j2")


def html_environment() -> jinja2.Environment:
    """Templates of this package that make HTML: everything is escaped."""
    folder = resources.files("dpgm.synthesis")
    loader = jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    formats: dict[str, Any] = {"people": people, "thousands": lambda count: f"{count:,}"}
    environment.filters |= formats
    return environment
