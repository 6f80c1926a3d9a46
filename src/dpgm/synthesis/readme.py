"""The README of a release folder, which states the certificate in words, and the sentences that both may contain."""

from collections.abc import Sequence
from functools import cache
from importlib import resources

import jinja2

from dpgm.data.domain import Domain
from dpgm.data.layouts import Source
from dpgm.privacy.certificate import Certificate

PUBLIC = "The number of records and the domain (the list of possible values) are treated as public."
PUBLIC_OPEN = "The number of records and what the domain states of columns and values are treated as public."
PER_ROW = "Each row is taken as one person; a person with several rows is protected per row."
ITEMS_ASSUMED_PUBLIC = "The custodian declared that the set of items occurring in the file is public knowledge."
DOMAIN_ASSUMED_PUBLIC = (
    "The domain was drafted from the data, and the custodian declared that all of it is public knowledge."
)
KINDS_JUDGED = (
    "Kinds of columns (whole numbers, places of decimals, units of time, whether values may be missing and how that is"
    " written, words for true and false) were judged by the rows, and are treated as public."
)
VOUCHED = (
    "The rows are those of a query or a view; whoever wrote it vouches that each row depends on one person alone."
)
SEVERAL_PLACES = (
    "The rows were in several places, and the custodian declared that nobody's rows are in more than one of them."
)
LOOKED = (
    "Settings were chosen after looking: an earlier release had been compared with the data. The promise does not cover"
    " what that choice tells."
)
SEEDED = "NOT PRIVATE: made with a seeded generator."

MADE_IN_MEMORY = Source("row", items_assumed_public=False, shape="basket")  # records not read from a file
STATEMENTS = (
    PUBLIC,
    PUBLIC_OPEN,
    PER_ROW,
    ITEMS_ASSUMED_PUBLIC,
    DOMAIN_ASSUMED_PUBLIC,
    KINDS_JUDGED,
    VOUCHED,
    SEVERAL_PLACES,
)


def several_rows(rows: int) -> str:
    """The sentence on the protection of a person with several rows."""
    return (
        f"A person keeps at most {rows} rows, by a secret choice, and is protected with all of them together: every"
        f" noise is {rows} times what one row would need."
    )


def statements_of(source: Source, found: Sequence[str] = (), domain: Domain | None = None) -> tuple[str, ...]:
    """What was assumed when the records were read, in sentences for the certificate and the README.

    `found` are the sentences of `discovery_statements`.
    """
    sentences = [PUBLIC_OPEN if found else PUBLIC]
    if source.unit == "row":
        sentences.append(PER_ROW)
    if source.rows_per_person > 1:
        sentences.append(several_rows(source.rows_per_person))
    if source.items_assumed_public:
        sentences.append(ITEMS_ASSUMED_PUBLIC)
    if source.vouched:
        sentences.append(VOUCHED)
    origins = {"declared": (DOMAIN_ASSUMED_PUBLIC,), "judged": (KINDS_JUDGED,)}
    return (*sentences, *(() if domain is None else origins.get(domain.origin, ())), *found)


def why_sentences_differ(certificate: Certificate, found: Sequence[str], rows_per_person: int) -> str | None:
    """Why `dpgm` would not have written these sentences into such a certificate; None if it would.

    `found` are the sentences of `discovery_statements`.
    """
    unit, statements, warnings = certificate.unit, certificate.statements, certificate.warnings
    several = (several_rows(rows_per_person),) if rows_per_person > 1 else ()
    for sentence in (*statements, *warnings):
        if sentence not in (*STATEMENTS, LOOKED, SEEDED, *found, *several):
            return f"{sentence[:60]!r} is not a sentence that dpgm writes"
    if not set(found) <= set(statements):
        return "it does not say what was found privately"
    if len({*statements, *warnings}) < len(statements) + len(warnings):
        return "a sentence is there twice"
    if (PUBLIC_OPEN if found else PUBLIC) not in statements:
        return "it does not say that the number of records and the domain are treated as public"
    if not set(several) <= set(statements):
        return "it does not say how many rows a person keeps"
    if (PER_ROW in statements) != (unit == "row") or (several and unit == "row"):
        return f"its sentences do not suit a guarantee per {unit}"
    if (SEEDED in warnings) == certificate.private:
        return "it is called private and carries the warning of a seeded run, or the reverse"
    return None


def release_readme(certificate: Certificate, domain: Domain) -> str:
    """The text of README.md, determined by the certificate and the domain."""
    epsilon = certificate.epsilon
    factor = f"{2.718281828459045**epsilon:.3g}" if epsilon < 20 else "more than a hundred million"
    return _template().render(certificate=certificate, domain=domain, factor=factor)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True
    )  # Markdown, not HTML: no escaping
    environment.filters["plain"] = plain_markdown
    return environment.from_string(resources.files("dpgm.synthesis").joinpath("readme.j2").read_text("utf-8"))


def plain_markdown(name: str) -> str:
    """A name on one line, with the marks of Markdown and HTML escaped."""
    printable = "".join(character if character.isprintable() else "?" for character in name)
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|&!" else character for character in printable)
