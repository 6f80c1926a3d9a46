"""Hypothesis strategies for domains and records."""

import numpy as np
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain, Image, ItemSet, Numeric
from dpgm.data.records import Records

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=8)
NASTY = st.sampled_from(
    [
        "=1+1",
        "+x",
        "-x",
        "@cmd",
        "'=1",
        "''=x",
        "a,b",
        'q"q',
        " lead",
        "trail ",
        "new\nline",
        "cr\rcr",
        "é",
        "\ttab",
        ";",
    ]
)
WHOLE = st.integers(0, 2**40)


def labels(kind, min_size=1, max_size=12):
    return st.lists(kind, min_size=min_size, max_size=max_size, unique=True)


integer_sets = st.builds(lambda items: Domain((ItemSet("items", tuple(items)),)), labels(WHOLE))
text_sets = st.builds(lambda items: Domain((ItemSet("things", tuple(items)),)), labels(st.one_of(TEXT, NASTY)))
images = st.builds(lambda h, w: Domain((Image("image", h, w),)), st.integers(1, 5), st.integers(1, 5))
item_domains = st.one_of(integer_sets, text_sets, images)


@st.composite
def numeric(draw, name):
    integer, missing = draw(st.booleans()), draw(st.booleans())
    if integer:
        low = draw(st.integers(-1000, 1000))
        span = draw(st.integers(1, 500))
        return Numeric(name, low, low + span, draw(st.integers(1, span + 1)), True, missing)
    low = draw(st.floats(-1e6, 1e6, allow_nan=False))
    high = low + draw(st.floats(0.5, 1e6))
    return Numeric(name, low, high, draw(st.integers(1, 50)), False, missing)


@st.composite
def tables(draw):
    fields = [
        Categorical("kind", tuple(draw(labels(st.one_of(TEXT, NASTY)))), draw(st.booleans())),
        Categorical("code", tuple(draw(labels(st.integers(-50, 50)))), draw(st.booleans())),
        draw(numeric("size")),
        ItemSet("extras", tuple(draw(labels(st.one_of(TEXT, NASTY))))),
    ]
    chosen = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=4, unique=True))
    if len(chosen) == 1 and isinstance(chosen[0], ItemSet):
        chosen.append(fields[0])
    return Domain(tuple(chosen))


@st.composite
def records_of(draw, domains):
    domain = draw(domains)
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        row = []
        for field, offset in zip(domain.fields, domain.offsets, strict=True):
            if field.kind in ("items", "image"):
                row += [offset + at for at in draw(st.sets(st.integers(0, field.width - 1), max_size=6))]
            else:
                row.append(offset + draw(st.integers(0, field.width - 1)))
        rows.append(row)
    return Records.from_lists(rows, domain)


def random_records(count, width, mean, seed=0):
    rng = np.random.default_rng(seed)
    rows = [rng.choice(width, size=min(width, rng.poisson(mean)), replace=False) for _ in range(count)]
    return Records.from_lists([row.tolist() for row in rows], Domain.of_items(width))
