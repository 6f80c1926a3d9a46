"""Every sentence a certificate may carry: what was assumed, and what weakens the guarantee.

A closed list, because the README shows these sentences to people: a certificate with a sentence of its own could say
anything there, and is refused by `verify`.
"""

from collections.abc import Sequence

from dpgm.data.source import Source

PUBLIC = "The number of records and the domain (the list of possible values) are treated as public."
PER_ROW = "Each row is taken as one person; a person with several rows is protected per row."
ITEMS_ASSUMED_PUBLIC = "The custodian declared that the set of items occurring in the file is public knowledge."
SEEDED = "NOT PRIVATE: made with a seeded generator."

STATEMENTS = (PUBLIC, PER_ROW, ITEMS_ASSUMED_PUBLIC)
WARNINGS = (SEEDED,)


def statements_of(source: Source | None) -> tuple[str, ...]:
    """What was assumed when the records were read, in sentences that the certificate and the README carry."""
    told = [PUBLIC]
    if source is None or source.unit == "row":
        told.append(PER_ROW)
    if source is not None and source.items_assumed_public:
        told.append(ITEMS_ASSUMED_PUBLIC)
    return tuple(told)


def odd_sentence(unit: str, private: bool, statements: Sequence[str], warnings: Sequence[str]) -> str | None:
    """Why these are not the sentences of a certificate of this unit and privacy; None if they may be."""
    for sentence in (*statements, *warnings):
        if sentence not in STATEMENTS and sentence not in WARNINGS:
            return f"{sentence[:60]!r} is not a sentence that dpgm writes"
    if len({*statements, *warnings}) < len(statements) + len(warnings):
        return "a sentence stands there twice"
    if PUBLIC not in statements:
        return "it does not say that the number of records and the domain are treated as public"
    if (PER_ROW in statements) != (unit == "row"):
        return f"its sentences do not suit a guarantee per {unit}"
    if (SEEDED in warnings) == private:
        return "it is called private and carries the warning of a seeded run, or the reverse"
    return None
