"""Columns that are named like identifiers, above all of persons: judged by the name, never by the values.

A name is one if it consists of a word for a person (`patient`, `customers`), or of a word for a person or for what
stands for one (`card`, `device`) and words for an identifier (`user_id`, `memberNo`, `card number`). Words in front
that say how the identifier was made (`hashed_user_id`) are passed over.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpgm.data.labels import INDEX

if TYPE_CHECKING:
    from dpgm.data.domain import Domain

# Words that name a person by themselves.
PERSONS = (
    "user|person|people|patient|customer|client|member|visitor|employee|student|pupil|passenger|subscriber|respondent"
    "|participant|guest|citizen|inhabitant|kunde|kundin|patientin|mitglied|mitarbeiter|schueler|schüler"
    "|versicherter|usuario|cliente|paciente|utilisateur"
)
# Words that stand for a person together with a word for an identifier.
STAND_INS = (
    "card|account|subject|device|phone|cust|pat|household|worker|staff|cookie|buyer|owner|loyalty|policy|karten|konto"
    "|kunden|patienten|personal|versicherten|geraete|haushalt|teilnehmer|adherent"
)
IDENTIFIERS = "ids?|identifier|uid|uuid|guid|no|nr|num|number|nummer|key|code|hash|token|pseudonym|ref"
# Identifiers that only persons have.
OWN = "ssn|mrn|msisdn|imsi|imei|nhs|email|mail"
_MADE = "unique|anon|anonymous|anonymi[sz]ed|hashed|encrypted|pseudo|pseudonymi[sz]ed"
# Names of identifiers of rows or persons, word by word.
_ID_WORDS = {"id", "identifier", "uid", "uuid", "mrn", "ssn", "nr", "nummer"}
_INDEXES = {INDEX, "Unnamed: 0", "__index_level_0__"}  # as read here, by pandas, and in Parquet files of pandas
_PERSON_WORDS = {
    "user",
    "person",
    "patient",
    "customer",
    "client",
    "member",
    "visitor",
    "kunde",
    "employee",
    "student",
}

_NAME = re.compile(
    f"({_MADE})*(({PERSONS})s?({IDENTIFIERS})*|({STAND_INS})s?({IDENTIFIERS})+|({OWN})({IDENTIFIERS})*)"
)

_WITH_IDENTIFIER = re.compile(f"({_MADE})*(({PERSONS}|{STAND_INS})({IDENTIFIERS})+|({OWN})({IDENTIFIERS})*)")


def identifies_persons(name: str) -> bool:
    """Whether a name says that a column holds identifiers of persons: a word for one and a word for an identifier.

    >>> [identifies_persons(name) for name in ("card_id", "Card No.", "patientId", "ssn", "patient", "product_id")]
    [True, True, True, True, False, False]
    """
    return _WITH_IDENTIFIER.fullmatch(_letters(name)) is not None


def called_id(name: str) -> bool:
    """Whether the name of a column is usual for identifiers.

    >>> [called_id(name) for name in ("patient_id", "orderId", "Schüler-Nr.", "humid", "valid")]
    [True, True, True, False, False]
    """
    return bool(_words(name) & _ID_WORDS) or name.lower().endswith(("_no", "number", "nummer", "key"))


def is_identifier(name: str) -> bool:
    """Whether a name says that a column identifies rows or persons (and not shops or products, which may repeat).

    >>> [is_identifier(name) for name in ("id", "ID", "patient_id", "userId", "ssn", "card_no", "product_id", "user")]
    [True, True, True, True, True, True, False, False]
    """
    words = _words(name)
    by_words = bool(words & _ID_WORDS) and (words <= _ID_WORDS or bool(words & _PERSON_WORDS))
    return is_index(name) or identifies_persons(name) or by_words


def is_index(name: str) -> bool:
    """Whether a column has the name that row numbers or row names get for want of their own."""
    return name in _INDEXES


def names_persons(name: str) -> bool:
    """Whether the name of a column is usual for persons."""
    return bool(_words(name) & _PERSON_WORDS) or called_id(name)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", re.sub("([a-z])([A-Z])", r"\1 \2", name).lower()))


def _letters(name: str) -> str:
    return "".join(re.findall(r"[^\W_]+", name.lower()))


def named_like_persons(names: Iterable[str], domain: "Domain | None" = None) -> tuple[str, ...]:
    """The names that are usual for identifiers of persons.

    Columns that the domain states to be something else (yes or no, dates, listed values) are left out.

    >>> named_like_persons(["user_id", "Card No.", "patient", "customerID", "user age", "id", "product_id"])
    ('user_id', 'Card No.', 'patient', 'customerID')
    """
    fields = () if domain is None else domain.fields
    stated = {one.name for one in fields if not one.may_identify and not one.is_open}
    alike = (name for name in names if _NAME.fullmatch(_letters(name)))
    return tuple(name for name in alike if name not in stated)


def person_advice(names: tuple[str, ...]) -> str:
    """What it means that such a column is not stated as the one of persons, and which options protect persons."""
    columns = f"the columns {', '.join(map(repr, names))} are" if len(names) > 1 else f"the column {names[0]!r} is"
    return (
        f"{columns} named like an identifier of persons, and `person` is not stated: every row counts as another"
        f" person, and a person with several rows is protected row by row only; say `person={names[0]!r}` with"
        " `rows_per_person` (or, for one item per row, with `item`) to protect persons with all their rows, or alone if"
        " every row is another person"
    )
