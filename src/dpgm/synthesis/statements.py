"""Every sentence a certificate may carry: what was assumed, and what weakens the guarantee.

A closed list, because the README shows these sentences to people: a certificate with a sentence of its own could say
anything there, and is refused by `verify`. Sentences on what was found privately (`found`) follow from the open domain,
which the certificate holds.
"""

from collections.abc import Sequence

from dpgm.data.domain import Domain
from dpgm.data.source import Source

PUBLIC = "The number of records and the domain (the list of possible values) are treated as public."
PUBLIC_OPEN = "The number of records and what the domain states of columns and values are treated as public."
PER_ROW = "Each row is taken as one person; a person with several rows is protected per row."
ITEMS_ASSUMED_PUBLIC = "The custodian declared that the set of items occurring in the file is public knowledge."
DOMAIN_ASSUMED_PUBLIC = (
    "The domain was drafted from the data, and the custodian declared that all of it is public knowledge."
)
SEEDED = "NOT PRIVATE: made with a seeded generator."

STATEMENTS = (PUBLIC, PUBLIC_OPEN, PER_ROW, ITEMS_ASSUMED_PUBLIC, DOMAIN_ASSUMED_PUBLIC)
WARNINGS = (SEEDED,)


def several_rows(rows: int) -> str:
    """How a person with several rows is protected."""
    return (
        f"A person keeps at most {rows} rows, by a secret choice, and is protected with all of them together: every"
        f" noise is {rows} times what one row would need."
    )


def statements_of(
    source: Source | None, found: Sequence[str] = (), domain: Domain | None = None
) -> tuple[str, ...]:
    """What was assumed when the records were read, in sentences that the certificate and the README carry."""
    told = [PUBLIC_OPEN if found else PUBLIC]
    if source is None or source.unit == "row":
        told.append(PER_ROW)
    if source is not None and source.rows_per_person > 1:
        told.append(several_rows(source.rows_per_person))
    if source is not None and source.items_assumed_public:
        told.append(ITEMS_ASSUMED_PUBLIC)
    if domain is not None and domain.origin == "declared":
        told.append(DOMAIN_ASSUMED_PUBLIC)
    return (*told, *found)


def odd_sentence(
    unit: str,
    private: bool,
    statements: Sequence[str],
    warnings: Sequence[str],
    found: Sequence[str] = (),
    rows_per_person: int = 1,
) -> str | None:
    """Why these are not the sentences of a certificate of this unit, privacy and domain; None if they may be."""
    several = (several_rows(rows_per_person),) if rows_per_person > 1 else ()
    for sentence in (*statements, *warnings):
        if sentence not in (*STATEMENTS, *WARNINGS, *found, *several):
            return f"{sentence[:60]!r} is not a sentence that dpgm writes"
    if not set(found) <= set(statements):
        return "it does not say what was found privately"
    if len({*statements, *warnings}) < len(statements) + len(warnings):
        return "a sentence stands there twice"
    if (PUBLIC_OPEN if found else PUBLIC) not in statements:
        return "it does not say that the number of records and the domain are treated as public"
    if not set(several) <= set(statements):
        return "it does not say how many rows a person keeps"
    if (PER_ROW in statements) != (unit == "row") or (several and unit == "row"):
        return f"its sentences do not suit a guarantee per {unit}"
    if (SEEDED in warnings) == private:
        return "it is called private and carries the warning of a seeded run, or the reverse"
    return None
