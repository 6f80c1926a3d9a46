"""Conditions and constraints: parsed safely, evaluated with SQL's treatment of missing values, saved in domain files."""

import numpy as np
import pytest

from dpgm.data.condition_text import parse_condition, parse_constraint
from dpgm.data.conditions import All, AnyOf, Linear, Not, OneOf, Rule, Unique, Values, check_values, truth
from dpgm.data.domain import Boolean, Categorical, Domain, ItemSet, Numeric
from dpgm.data.domain_file import domain_from_plain, domain_to_plain, load_domain, save_domain
from dpgm.data.records import Records
from dpgm.errors import UsageError

FIELDS = (
    Numeric("age", 0, 99, 10, integer=True),
    Numeric("capital-gain", 0, 100, 10, missing=True),
    Categorical("marital status", ("never", "once"), missing=True),
    ItemSet("basket", ("milk", "bread")),
)
DOMAIN = Domain(FIELDS)


def values():
    """Three records: 10 years, gain 5, never married, milk; 30, missing, once, both; 70, 0, missing, nothing."""
    rows = [[1, 10, 21, 24], [3, 20, 22, 24, 25], [7, 10, 23]]
    numbers = {"age": np.array([10.0, 30.0, 70.0]), "capital-gain": np.array([5.0, np.nan, 0.0])}
    return Values(Records.from_lists(rows, DOMAIN), numbers)


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ("age >= 30", [0, 1, 1], [1, 0, 0]),
        ("30 <= age", [0, 1, 1], [1, 0, 0]),
        ("capital-gain < 3", [0, 0, 1], [1, 0, 0]),
        ("capital-gain = missing", [0, 1, 0], [1, 0, 1]),
        ("age - capital-gain > 6", [0, 0, 1], [1, 0, 0]),
        ("age = 2 * capital-gain", [1, 0, 0], [0, 0, 1]),
        ("age > 0 * age + 20", [0, 1, 1], [1, 0, 0]),
        ("'marital status' = never", [1, 0, 0], [0, 1, 0]),
        ("'marital status' != never", [0, 1, 0], [1, 0, 0]),
        ("'marital status' in [once, missing]", [0, 1, 1], [1, 0, 0]),
        ("basket = milk", [1, 1, 0], [0, 0, 1]),
        ("not basket = bread and age < 50", [1, 0, 0], [0, 1, 1]),
        ("basket = bread or age = 70", [0, 1, 1], [1, 0, 0]),
        ("(age < 20 or age > 60) and 'marital status' = never", [1, 0, 0], [0, 1, 0]),
        ("age in [10, 70]", [1, 0, 1], [0, 1, 0]),
        ("age not in [10, 70]", [0, 1, 0], [1, 0, 1]),
    ],
)
def test_conditions_mean_what_they_say(text, true, false):
    condition = parse_condition(text, FIELDS)
    check_values(condition, DOMAIN)
    found = truth(condition, values())
    assert found[0].astype(int).tolist() == true
    assert found[1].astype(int).tolist() == false


def test_rules_are_broken_only_by_what_is_false():
    rule = parse_constraint("'marital status' = never if age < 50", FIELDS)
    assert truth(rule.condition, values())[1].tolist() == [False, True, False]
    late = parse_constraint("'marital status' = never if age > 60", FIELDS)  # missing in the third record
    assert truth(late.condition, values())[1].tolist() == [False, False, False]


def test_dates_are_days_and_hyphens_belong_to_names():
    condition = parse_condition("age >= 1970-02-01", FIELDS)
    assert condition == Linear(((1.0, "age"),), -31.0, ">=")
    assert parse_condition("capital-gain=1", FIELDS) == Linear(((1.0, "capital-gain"),), -1.0, "=")
    assert parse_condition("basket=milk and age>1", FIELDS) == All(
        (OneOf("basket", ("milk",)), Linear(((1.0, "age"),), -1.0, ">"))
    )
    assert isinstance(parse_condition("not basket=milk", FIELDS), Not)


@pytest.mark.parametrize(
    "text",
    [
        "", "age", "age >", "age = = 3", "height > 3", "age > 3 and", "__import__('os')", "age > 3; 1", "(age > 3",
        "basket > milk", "age = milk", "age if", "age > 3 if", "1 = 1", "age in 3", "age in [", "age in []",
        "'marital status' < 3", "age + milk = 3", "age = lambda", "age > " + "1" * 5000, "(" * 3900 + "age", "not " * 900 + "age > 3",
        "'marital status' = age", "age > 2020-13-45", "age <= 2021-02-29", "age < 1e999", "age = nan",
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_one_sentence(text):
    with pytest.raises(UsageError) as error:
        parse_constraint(text, FIELDS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("label", ["01067", "2020-01-31", "1234567", "-2", "1.50"])
@pytest.mark.parametrize("text", ["code = {}", "code in [{}]", "code = '{}'"])
def test_labels_that_look_like_numbers_are_labels(text, label):
    """A label with leading zeros, or one that looks like a date, is not a number."""
    fields = (Categorical("code", (label, "other")),)
    condition = parse_condition(text.format(label), fields)
    assert condition == OneOf("code", (label,))
    check_values(condition, Domain(fields))


def test_allowed_rows_may_hold_yaml_booleans_and_nulls():
    fields = (Boolean("insured", missing=True), Categorical("plan", ("basic", "none")))
    rule = parse_constraint({"fields": ["insured", "plan"], "allowed": [[True, "basic"], [None, "none"]]}, fields)
    check_values(rule.condition, Domain(fields))
    assert rule.condition == AnyOf((
        All((All((OneOf("insured", ("true",)), Not(OneOf("insured", (None,))))), OneOf("plan", ("basic",)))),
        All((OneOf("insured", (None,)), OneOf("plan", ("none",)))),
    ))  # fmt: skip


def test_sums_may_have_brackets_and_quoted_fields():
    expected = Linear(((1.0, "age"), (-2.0, "capital-gain"), (2.0, "age")), -3.0, "<")
    assert parse_condition("age < 2 * ('capital-gain' - age) + 3", FIELDS) == expected
    assert parse_condition("age - 3 < 2 * capital-gain - 2 * age", FIELDS) == expected


def test_values_the_domain_does_not_list_are_refused():
    with pytest.raises(UsageError, match="no value 'twice'"):
        check_values(parse_condition("'marital status' = twice", FIELDS), DOMAIN)
    with pytest.raises(UsageError, match="never missing"):
        check_values(parse_condition("age = missing", FIELDS), DOMAIN)


CONSTRAINTS = [
    "'marital status' = never if age < 15",
    {"unique": ["age", "basket"]},
    {"fields": ["marital status", "basket"], "allowed": [["never", "milk"], ["once", "bread"]]},
]


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_constraints_come_back_from_a_domain_file(tmp_path, ending):
    domain = Domain(FIELDS, constraints=tuple(CONSTRAINTS))
    save_domain(domain, tmp_path / f"domain.{ending}")
    again = load_domain(tmp_path / f"domain.{ending}")
    assert again == domain
    assert hash(again) == hash(domain)
    assert domain_from_plain(domain_to_plain(domain)) == domain
    assert domain_to_plain(domain)["constraints"] == CONSTRAINTS
    assert [type(one) for one in again.constraints] == [Rule, Unique, Rule]
    assert "constraints" not in domain_to_plain(DOMAIN)


@pytest.mark.parametrize(
    "rule",
    ["height > 3", 3, {"unique": []}, {"unique": ["height"]}, {"fields": ["age"], "allowed": []}, {"other": 1},
     {"fields": ["age"], "allowed": [[1, 2]]}, {"fields": ["height"], "allowed": [[1]]}],
)  # fmt: skip
def test_a_domain_with_a_rule_it_cannot_keep_is_refused(rule):
    with pytest.raises(UsageError):
        Domain(FIELDS, constraints=(rule,))


def test_a_domain_file_with_an_unknown_value_names_it(tmp_path):
    save_domain(Domain(FIELDS, constraints=("'marital status' = twice if age < 15",)), tmp_path / "domain.yaml")
    with pytest.raises(UsageError, match="no value 'twice'"):
        load_domain(tmp_path / "domain.yaml")


def test_the_message_about_a_text_with_unique_says_how_to_write_it():
    with pytest.raises(UsageError, match=r"write `unique: \[a, b\]`, with the names"):
        Domain((Numeric("a", 0, 9, 3), Numeric("b", 0, 9, 3)), constraints=("unique a",))
