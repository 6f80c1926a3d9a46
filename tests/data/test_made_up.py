"""Made-up people have the columns of the domain, and nothing of anybody."""

import pytest

import dpgm
from dpgm.data.domain_file import domain_from_plain
from dpgm.data.made_up import made_up_people
from dpgm.errors import UsageError

FIELDS = [
    {"name": "age", "kind": "numeric", "low": 0, "high": 90, "integer": True},
    {"name": "weight", "kind": "numeric", "low": "discover", "high": "discover"},
    {"name": "ward", "kind": "categorical", "values": ["a", "b", "c"], "missing": True},
    {"name": "town", "kind": "categorical", "discover": True},
    {"name": "born", "kind": "date", "low": "1920-01-01", "high": "2000-01-01"},
    {"name": "well", "kind": "boolean"},
]


def test_a_table_of_all_kinds_is_read_by_its_own_domain_and_is_the_same_again():
    domain = domain_from_plain({"fields": FIELDS})
    table = made_up_people(domain, 300, seed=1)
    assert table == made_up_people(domain, 300, seed=1)
    assert table != made_up_people(domain, 300, seed=2)
    assert table.column_names == [field["name"] for field in FIELDS]
    assert set(table["ward"].to_pylist()) == {"a", "b", "c", None}
    assert 0 <= min(table["age"].to_pylist()) <= max(table["age"].to_pylist()) <= 90
    assert len(dpgm.as_records(table, domain=domain)) == 300


def test_lists_of_items_have_about_the_stated_length():
    domain = domain_from_plain(
        {"fields": [{"name": "seen", "kind": "items", "items": [f"i{at}" for at in range(50)]}]}
    )
    for mean in (2.0, 5.0):
        lengths = [len(one) for one in made_up_people(domain, 4_000, seed=0, mean_length=mean)["seen"].to_pylist()]
        assert sum(lengths) / 4_000 == pytest.approx(mean, rel=0.15)


def test_sequences_have_items_in_order_and_those_with_times_are_refused():
    plain = {"name": "stops", "kind": "sequence", "items": ["a", "b", "c"], "max_length": 6}
    stops = made_up_people(domain_from_plain({"fields": [plain]}), 200, seed=0)["stops"].to_pylist()
    assert {item for one in stops for item in one} == {"a", "b", "c"}
    assert max(map(len, stops)) <= 6
    assert any(len(set(one)) < len(one) for one in stops)  # with repeats
    timed = plain | {"time": True, "from": "2025-01-01", "to": "2025-02-01"}
    with pytest.raises(UsageError, match="has times"):
        made_up_people(domain_from_plain({"fields": [timed]}), 10, seed=0)


def test_pictures_cannot_be_made_up():
    domain = domain_from_plain({"fields": [{"name": "scan", "kind": "image", "height": 4, "columns": 4}]})
    with pytest.raises(UsageError, match="cannot be made up"):
        made_up_people(domain, 10, seed=0)
