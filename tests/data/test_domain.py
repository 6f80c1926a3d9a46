"""Invalid domains are refused, and domain files read back exactly."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_strategies import item_domains, tables
from dpgm.data.domain import Boolean, Categorical, Domain, Image, ItemSet, Numeric
from dpgm.data.domain_file import domain_from_plain, domain_to_plain, load_domain, save_domain
from dpgm.errors import ResourceError, UsageError


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Domain(()), "no fields"),
        (lambda: Domain((Image("a", 1, 1), Image("a", 2, 2))), "'a' twice"),
        (lambda: Domain((Image("a", 1, 1),), label="b"), "label 'b'"),
        (lambda: ItemSet("a", ()), "no items"),
        (lambda: ItemSet("a", (1, 1)), "twice"),
        (lambda: ItemSet("a", (1, "1")), "all texts or all whole"),
        (lambda: ItemSet("a", (-1,)), "negative"),
        (lambda: ItemSet("a", (2**63,)), "64 bits"),
        (lambda: ItemSet("a", (True,)), "texts or whole"),
        (lambda: ItemSet("a", (1.5,)), "texts or whole"),
        (lambda: ItemSet("a", ("x" * 1025,)), "1 kB"),
        (lambda: ItemSet("a", ("",)), "empty"),
        (lambda: ItemSet("a", ("\ud800",)), "Unicode"),
        (lambda: ItemSet("a", "abc"), "a list"),
        (lambda: ItemSet("", (1,)), "no name"),
        (lambda: Categorical("a", ()), "no values"),
        (lambda: Categorical("a", ("x", "x")), "twice"),
        (lambda: Categorical("a", (1, 2), other=True), "quote the numbers"),
        (lambda: Categorical("a", discover=True, other=True), "leave out `other`"),
        (lambda: Image("a", 0, 3), "at least 1"),
        (lambda: Image("a", 10_000, 10_000), "10,000,000"),
        (lambda: Numeric("a", 1, 1, 5), "low must be below high"),
        (lambda: Numeric("a", 2, 1, 5), "low must be below high"),
        (lambda: Numeric("a", float("nan"), 1, 5), "finite"),
        (lambda: Numeric("a", -1e308, 1e308, 5), "below high"),
        (lambda: Numeric("a", 0, 1, 0), "bins"),
        (lambda: Numeric("a", 0, 1, -1), "bins"),
        (lambda: Numeric("a", 0, 1, 10_000_000), "bins"),
        (lambda: Numeric("a", 0, 3, 5, integer=True), "one whole number per bin"),
        (lambda: Numeric("a", 0.5, 3, 2, integer=True), "whole numbers"),
        (lambda: Domain(tuple(Image(str(at), 1000, 1000) for at in range(11))), "10,000,000 positions"),
    ],
)
def test_a_domain_that_breaks_a_rule_is_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()


def test_a_billion_items_are_refused_without_listing_them():
    with pytest.raises(ResourceError, match="10,000,000"):
        ItemSet("a", range(10**9))


FIELDS = [{"name": "age", "kind": "numeric", "low": 0, "high": 99, "bins": 3}, {"name": "ward", "kind": "boolean"}]


def test_weights_and_pairs_are_read_and_written():
    plain = {"pairs": [["age", "ward"]], "fields": [FIELDS[0] | {"weight": 2.5}, FIELDS[1]]}
    domain = domain_from_plain(plain)
    assert (domain.weights, domain.pairs) == ((("age", 2.5),), (("age", "ward"),))
    assert domain_from_plain(domain_to_plain(domain)) == domain


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fields": [FIELDS[0] | {"weight": 11}]}, "`weight` of the field 'age' must be a number from 1 to 10"),
        ({"fields": [FIELDS[0] | {"weight": "2"}]}, "must be a number"),
        ({"fields": [FIELDS[0] | {"weight": True}]}, "must be a number"),
        ({"pairs": "age"}, "'pairs' of the domain must be a list"),
        ({"pairs": ["age"]}, "such as \\[\\[age, income"),
        ({"pairs": [["age", "age"]]}, "must be a list of pairs"),
        ({"pairs": [["age", "wards"]]}, "'wards' is none .did you mean ward"),
        ({"fields": [{"name": "list", "kind": "items", "items": ["a"], "weight": 2}]}, "'list' is none"),
        ({"fields": [FIELDS[0], {"name": "id", "kind": "identifier", "weight": 2}]}, "'id' is none"),
    ],
)
def test_weights_and_pairs_of_anything_else_are_refused(changes, words):
    with pytest.raises(UsageError, match=words):
        domain_from_plain({"fields": FIELDS} | changes)


def test_widths_offsets_and_blocks():
    domain = Domain((ItemSet("s", ("a", "b")), Categorical("c", (5, 6), missing=True), Numeric("n", 0, 1, 4)), "c")
    assert domain.width == 9
    assert domain.offsets == (0, 2, 5)
    assert [(block.start, block.stop, block.softmax) for block in domain.blocks] == [
        (0, 2, False),
        (2, 5, True),
        (5, 9, True),
    ]
    assert domain.field("n").bins == 4
    with pytest.raises(UsageError, match="no field"):
        domain.field("x")


@given(domain=st.one_of(item_domains, tables()))
@settings(max_examples=40, deadline=None)
def test_domain_files_read_back_exactly(tmp_path_factory, domain):
    folder = tmp_path_factory.mktemp("domains")
    for ending in ("yaml", "json"):
        save_domain(domain, folder / f"d.{ending}", note="curator only\nsecond line")
        assert load_domain(folder / f"d.{ending}") == domain
    assert domain_from_plain(json.loads(json.dumps(domain_to_plain(domain)))) == domain


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("d.yaml", "fields:\n- {name: a, kind: items, items: [1], extra: 2}", "unknown key 'extra'"),
        ("d.yaml", "fields: []\nmore: 1", "unknown key 'more'"),
        ("d.yaml", "fields:\n- {name: a, name: b, kind: items, items: [1]}", "line 2.*twice"),
        ("d.json", '{"fields": [], "fields": []}', "twice"),
        ("d.yaml", "fields: !!python/object/apply:os.system ['true']", "line 1.*tags"),
        ("d.yaml", "fields:\n- {name: a, kind: items, items: [yes, no]}", "quote"),
        ("d.yaml", "fields:\n- {name: a, kind: items, items: [2020-01-01]}", "quote"),
        ("d.yaml", "fields:\n- {name: a, kind: sets}", "'kind'"),
        ("d.yaml", "fields:\n- {name: a, kind: items}", "lacks the key 'items'"),
        ("d.yaml", "fields:\n- {name: a, kind: items, items: 5}", "must be a list"),
        ("d.yaml", "fields:\n- {name: a, kind: numeric, low: 5, high: 1, bins: 3}", "below high"),
        (
            "d.yaml",
            "fields:\n- {name: a, kind: numeric, low: 0, high: 1, bins: 3, integer: maybe}",
            "true or false",
        ),
        ("d.yaml", "fields: [", "line 2"),
        (
            "d.yaml",
            "fields:\n- {name: a, kind: boolean\n- {name: b, kind: boolean}\n",
            "lines 2 to 3: .*found no ','",
        ),
        ("d.yaml", "fields:\n- {name: a, kind: date, low: 2020-13-45, high: 2021-01-01}", "line 2: is no date"),
        (
            "d.yaml",
            "fields:\n- {name: \u00e4\u00e4, kind: boolean}\n- {name: \x01, kind: boolean}",
            "line 3: holds a char",
        ),
        ("d.yaml", "label: agee\nfields:\n- {name: age, kind: boolean}", "did you mean age"),
        ("d.yaml", "- 1\n", "mapping"),
        ("d.yaml", "fields: 5\n", "must be a list"),
        ("d.yaml", "", "mapping"),
        ("d.json", '{"fields": ', "line 1"),
        ("d.json", '{"fields": [{"name": "a", "kind": "numeric", "low": NaN, "high": 1, "bins": 2}]}', "finite"),
        ("d.json", "[" * 100_000, "nested|JSON"),
        ("d.yaml", "[" * 100_000, "nested"),
        ("d.yaml", "- " * 100_000, "nested"),
        ("d.toml", "fields = []", r"\.yaml"),
    ],
)
def test_a_bad_domain_file_is_refused_by_name(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        load_domain(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_domain_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no such domain file"):
        load_domain(tmp_path / "no.yaml")
    (tmp_path / "d.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        load_domain(tmp_path / "d.yaml")


def test_the_example_domains_are_valid():
    from pathlib import Path

    folder = Path(__file__).parents[2] / "examples" / "domains"
    assert load_domain(folder / "adult.yaml").label == "income"
    assert load_domain(folder / "bank.yaml").label == "y"


def test_a_domain_says_which_positions_are_items_and_which_share_a_column():
    fields = (Categorical("label", ("x", "y")), ItemSet("bought", ("a", "b")), Boolean("seen", missing=True))
    domain = Domain(fields, label="label")
    assert domain.table_columns == (slice(0, 2), slice(4, 7))
    assert domain.item_positions.tolist() == [False, False, True, True, False, False, False]
    assert domain.column_of.tolist() == [0, 0, 2, 3, 4, 4, 4]
    assert domain.label_positions.tolist() == [True, True, False, False, False, False, False]
    assert [domain.columns_within(np.array(among)) for among in ([2, 3], [1, 2], [4, 6], [0, 5])] == [0, 1, 1, 2]
    assert not domain.is_table
    assert Domain(fields[::2]).is_table
    with pytest.raises(ValueError, match="read-only"):
        domain.item_positions[0] = True


ALL_NUMBERS = [
    {"name": "a", "kind": "numeric", "low": 0, "high": 10, "bins": 5, "integer": True},
    {"name": "a", "kind": "numeric", "low": 0.5, "high": 10.5, "bins": 5},
    {"name": "a", "kind": "numeric", "low": 0, "high": 10, "decimals": 2, "specials": [-1]},
    {"name": "a", "kind": "numeric", "low": 0, "high": 10, "integer": True, "specials": [-1]},
    {"name": "a", "kind": "numeric", "low": 0, "high": 10},
    {"name": "a", "kind": "image", "height": 2, "columns": 2, "levels": 2},
    {"name": "a", "kind": "items", "items": [1, 2]},
    {"name": "a", "kind": "date", "low": "2020-01-01", "high": "2020-12-31"},
    {"name": "a", "kind": "datetime", "low": "2020-01-01T00:00", "high": "2020-12-31T00:00", "unit": "minute"},
    {
        "name": "a",
        "kind": "shaped",
        "type": "decimal",
        "decimals": 2,
        "atoms": [0],
        "edges": [1, 5, 9],
        "weights": [1, 2],
        "starts": [0],
    },
    {"name": "a", "kind": "shaped", "type": "real", "atoms": [0], "edges": [1, 5], "weights": [1], "starts": [0]},
]


@pytest.mark.parametrize("field", ALL_NUMBERS, ids=lambda field: field["kind"])
def test_numbers_of_any_size_make_a_domain_or_are_refused(field):
    """Regression: one of 100,000 mutated releases had a bound too large for a float."""
    domain_from_plain({"fields": [field]})
    for huge in (10**400, -(10**400), 10**308, -(10**308), 1.7e308, -1.7e308, 2**63, 1e-320, float("nan")):
        for key, value in field.items():
            places = range(len(value)) if isinstance(value, list) else [None]
            for place in places:
                changed = huge if place is None else [*value[:place], huge, *value[place + 1 :]]
                try:
                    domain = domain_from_plain({"fields": [field | {key: changed}]})
                except (UsageError, ResourceError):
                    continue
                made = domain.fields[0]
                assert getattr(made, "is_open", False) or len(made.position_names) == made.width
