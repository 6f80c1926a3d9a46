"""Conditional samples and constraints: exact distributions, records that meet all rules, impossible conditions refused."""

from itertools import product

import numpy as np
import pandas
import pytest
import torch

from dpgm.data.conditions import Values, truth
from dpgm.data.domain import Boolean, Categorical, Domain, Identifier, ItemSet, Numeric, ShapedNumber
from dpgm.data.number_format import NumberFormat
from dpgm.data.read.frames import as_records
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.products.model import Products
from dpgm.strategy.protocol import Generator
from dpgm.synthesis import sampling
from dpgm.synthesis.conditioning import common_boxes, parse_where, region_of
from dpgm.synthesis.sampling import Sample, write_sample

FIELDS = (
    Numeric("age", 0, 11, 4, integer=True, missing=True),
    Categorical("married", ("never", "once", "often"), missing=True),
    Categorical("before", ("never", "once")),
    Numeric("gain", 0.0, 8.0, 4),
    ItemSet("basket", ("milk", "bread", "jam")),
)


def sample(*arguments, **options):
    return Sample(*arguments, **options).records()


def mixture(domain=None, components=5, seed=0):
    domain = Domain(FIELDS) if domain is None else domain
    draws = torch.Generator().manual_seed(seed)
    weights = torch.rand(components, generator=draws, dtype=torch.float64) + 0.1
    parts = []
    for block in domain.blocks:
        size = (components, block.width)
        if block.softmax:
            parts.append(torch.softmax(1.5 * torch.randn(size, generator=draws), dim=1))
        else:
            parts.append(torch.rand(size, generator=draws))
    return Products(domain, weights / weights.sum(), torch.cat(parts, dim=1))


def all_records(domain):
    """Every possible record as a dense row."""
    choices = []
    for block in domain.blocks:
        if block.softmax:
            choices.append([np.eye(block.width)[at] for at in range(block.width)])
        else:
            choices.append([np.array(bits) for bits in product((0.0, 1.0), repeat=block.width)])
    return np.array([np.concatenate(row) for row in product(*choices)])


def probability(model, rows):
    """The probability of every possible record."""
    chances = model.probabilities.double().numpy()
    total = np.zeros(len(rows))
    for weight, chance in zip(model.weights.numpy(), chances, strict=True):
        part = np.full(len(rows), weight)
        for block in model.domain.blocks:
            inside = rows[:, block.start : block.stop]
            here = chance[block.start : block.stop]
            if block.softmax:
                part *= (inside * here).sum(axis=1)
            else:
                part *= np.where(inside == 1, here, 1 - here).prod(axis=1)
        total += part
    return total


LABEL_CONDITIONS = [
    "married = never",
    "married != never",
    "married in [once, missing]",
    "basket = milk and basket != jam",
    "basket in [milk, bread]",
    "not (basket = milk or married = once)",
    "married = before",
    "married != before",
    "married = never or basket = milk",
    "age = missing",
    "(married = never or age = missing) and (before = once or basket = jam)",
]


@pytest.mark.parametrize("text", LABEL_CONDITIONS)
@pytest.mark.parametrize("unknown", [False, True])
def test_a_mixture_given_a_condition_on_labels_has_exactly_the_right_law(text, unknown):
    model = mixture()
    condition = parse_where(text, model.domain)
    region = region_of(condition, model.domain, unknown=unknown)
    assert region.exact
    made, chance = model.conditioned(region.boxes)
    rows = all_records(model.domain)
    records = Records.from_dense(rows, model.domain)
    ages = np.where(rows[:, 4] == 1, np.nan, 0.0)
    true, false = truth(condition, Values(records, {"age": ages, "gain": np.zeros(len(rows))}))
    expected = probability(model, rows) * (~false if unknown else true)
    assert chance == pytest.approx(expected.sum(), rel=1e-5)
    np.testing.assert_allclose(probability(made, rows), expected / expected.sum(), atol=1e-6)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("age >= 6", True),
        ("age < 5", False),
        ("age in [3, 4, 5]", False),
        ("gain > 3", False),
        ("age <= gain", False),
    ],
)
def test_ranges_are_exact_where_bins_tell(text, exact):
    domain = Domain(FIELDS)
    assert region_of(parse_where(text, domain), domain, unknown=False).exact == exact


@pytest.mark.parametrize("text", ["age >= 5", "age < 5 and gain > 3.5", "age <= gain", "age in [0, 11]", "age = 7"])
def test_ranges_follow_the_values_drawn_and_their_law(text):
    model = mixture()
    plain = sample(model, model.domain, 60_000, seed=1).to_pandas()
    chosen = sample(model, model.domain, 20_000, seed=2, where=text).to_pandas()
    expected = plain.query(text.replace(" = ", " == "))
    assert len(chosen.query(text.replace(" = ", " == "))) == 20_000
    for name in ("age", "gain"):
        assert abs(expected[name].astype(float).mean() - chosen[name].astype(float).mean()) < 0.15
    gap = expected.before.value_counts(normalize=True) - chosen.before.value_counts(normalize=True)
    assert gap.abs().max() < 0.03


def test_boxes_of_several_rules_are_disjoint_and_complete():
    domain = Domain(FIELDS)
    texts = ["married = never or before = once", "basket = milk or married != often"]
    boxes = common_boxes([region_of(parse_where(text, domain), domain, unknown=False).boxes for text in texts])
    rows = all_records(domain)
    inside = np.zeros(len(rows), dtype=int)
    for box in boxes:
        good = np.ones(len(rows), dtype=bool)
        for (name, item), mask in box.items():
            block = domain.blocks[[field.name for field in domain.fields].index(name)]
            if item < 0:
                good &= rows[:, block.start : block.stop] @ mask > 0
            else:
                good &= mask[rows[:, block.start + item].astype(int)]
        inside += good
    never, once, often, milk = rows[:, 5] == 1, rows[:, 10] == 1, rows[:, 7] == 1, rows[:, 15] == 1
    missing = rows[:, 8] == 1
    expected = (never | once) & (milk | (~often & ~missing))
    assert set(inside) <= {0, 1}
    np.testing.assert_array_equal(inside == 1, expected)


def test_ranges_of_positions_hold_what_is_drawn():
    domain = Domain(FIELDS)
    records = mixture().sample(5000, generator=torch.Generator().manual_seed(0))
    frame = records.to_pandas(rng=np.random.default_rng(0))
    for at, name in ((0, "age"), (3, "gain")):
        low, high = domain.fields[at].position_ranges()
        codes = records.to_dense()[:, domain.blocks[at].start : domain.blocks[at].stop].argmax(axis=1)
        present = codes < len(low)
        drawn = frame[name].astype(float).to_numpy()[present]
        assert np.all(drawn >= low[codes[present]] - 1e-9)
        assert np.all(drawn <= high[codes[present]] + 1e-9)
    assert low[0] == 0
    assert high[-1] == 8


RULES = (
    "married = never if age < 6",
    "gain <= age",
    "basket = milk if before = once",
    {"fields": ["married", "before"], "allowed": [["never", "never"], ["once", "never"], ["once", "once"], ["missing", "never"]]},
)  # fmt: skip


def test_every_sample_meets_the_constraints():
    model = mixture(Domain(FIELDS, constraints=RULES))
    frame = sample(model, model.domain, 3000, seed=1).to_pandas()
    assert len(frame) == 3000
    young = frame[frame.age < 6]
    assert (young.married.isna() | (young.married == "never")).all()
    assert (frame.age.isna() | (frame.gain <= frame.age)).all()
    assert all("milk" in basket for basket in frame[frame.before == "once"].basket)
    pairs = set(zip(frame.married.fillna("missing"), frame.before, strict=True))
    assert pairs <= {("never", "never"), ("once", "never"), ("once", "once"), ("missing", "never")}
    conditional = sample(model, model.domain, 200, seed=1, where="age < 6").to_pandas()
    assert (conditional.age < 6).all()
    assert set(conditional.married.dropna()) == {"never"}


def test_constraints_hold_for_generators_that_cannot_be_conditioned():
    class Opaque(Generator):
        """A generator that is not a mixture of products."""

        def __init__(self, inner):
            self._inner = inner

        def sample(self, count, *, generator):
            return self._inner.sample(count, generator=generator)

    model = mixture(Domain(FIELDS, constraints=RULES[:1]))
    frame = sample(Opaque(model), model.domain, 500, seed=0).to_pandas()
    young = frame[frame.age < 6]
    assert len(young) > 20
    assert (young.married.isna() | (young.married == "never")).all()


def test_numbers_that_a_rule_states_are_computed_and_positions_follow():
    fields = (
        Numeric("net", 0, 99, 10, integer=True),
        Numeric("tax", 0, 9, 5, integer=True),
        Numeric("total", 0, 199, 20, integer=True),
        Numeric("last", -1, 98, 10, integer=True),
    )
    rules = ("total = net + tax", "last = -1 if tax <= 4")
    model = mixture(Domain(fields, constraints=rules))
    records = sample(model, model.domain, 1000, seed=3)
    frame = records.to_pandas()
    assert (frame.total == frame.net + frame.tax).all()
    assert (frame["last"][frame.tax <= 4] == -1).all()
    assert frame["last"][frame.tax > 4].max() > 20
    assert as_records(frame, model.domain) == records


def test_unique_keys_are_unique_and_too_many_are_refused(monkeypatch):
    fields = (Numeric("key", 0, 999, 10, integer=True), Categorical("kind", ("a", "b")))
    model = mixture(Domain(fields, constraints=({"unique": ["key", "kind"]},)))
    frame = sample(model, model.domain, 800, seed=0).to_pandas()
    assert not frame.duplicated(["key", "kind"]).any()
    monkeypatch.setattr(sampling, "LOWEST_ACCEPTANCE", 1e-3)
    with pytest.raises(UsageError, match="unique"):
        sample(model, model.domain, 2500, seed=0)


def test_what_never_happens_is_refused_in_one_sentence():
    model = mixture(Domain(FIELDS, constraints=("married = never if before = once",)))
    with pytest.raises(UsageError, match=r"no synthetic record"):
        sample(model, model.domain, 10, where="before = once and married = often")
    with pytest.raises(UsageError, match=r"no value"):
        sample(model, model.domain, 10, where="married = twice")


def test_the_same_seed_gives_the_same_values_however_often_they_are_looked_at(tmp_path):
    model = mixture()
    first, second = (sample(model, model.domain, 500, seed=7) for _ in range(2))
    pandas.testing.assert_frame_equal(first.to_pandas(), first.to_pandas())
    pandas.testing.assert_frame_equal(first.to_pandas(), second.to_pandas())
    assert not first.to_pandas().equals(sample(model, model.domain, 500, seed=8).to_pandas())
    whole = first.to_pandas()
    for part, rows in ((first.take(np.array([3, 4, 10])), [3, 4, 10]), (first.rows(5, 9), slice(5, 9))):
        expected = whole.iloc[rows].reset_index(drop=True)
        pandas.testing.assert_frame_equal(part.to_pandas(), expected, check_dtype=False)

    class Opened:
        generator, domain = model, model.domain

    write_sample(Opened(), 500, tmp_path / "s.parquet", seed=7)
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(tmp_path / "s.parquet").astype({"age": "float64"}),
        first.to_pandas().astype({"age": "float64"}),
    )


def test_conditions_may_be_mappings_and_lists():
    model = mixture()
    frame = sample(model, model.domain, 300, seed=0, where={"married": ["once", None], "age": [3, 4]}).to_pandas()
    assert set(frame.age) == {3, 4}
    assert set(frame.married.dropna()) == {"once"}
    met = Sample(model, model.domain, 100, where=["milk", "before=once"], seed=0)
    both = met.records()
    assert (both.to_pandas().before == "once").all()
    rows = all_records(model.domain)
    assert met.rate == pytest.approx(
        probability(model, rows)[(rows[:, 15] == 1) & (rows[:, 10] == 1)].sum(), rel=1e-4
    )


def shaped(name, kind, atoms, edges, starts, missing=False):
    form = NumberFormat(kind, 2 if kind == "decimal" else 0)
    return ShapedNumber(name, form, atoms, edges, (1.0,) * (len(edges) - 1), starts, missing=missing)


def test_numbers_dates_and_truths_that_were_found_keep_rules_too():
    fields = (
        shaped("gain", "integer", (0, 50), (1, 20, 40, 101), (0, 2), missing=True),
        shaped("price", "decimal", (999,), (100, 500, 1000, 2001), (0, 1, 2)),
        shaped("start", "date", (), (18262, 18300, 18400, 18628), (0, 1, 2)),
        shaped("end", "date", (), (18262, 18300, 18400, 18628), (0, 1, 2)),
        Boolean("retired"),
    )
    rules = (
        "gain = 0 if retired = true",
        "start <= end",
        "price <= 9.99 if gain = 0",
        {"unique": ["id"]},
        "end >= 2020-06-01 if retired = false",
    )
    domain = Domain((*fields, Identifier("id")), constraints=rules)
    for field, name in ((fields[0], "gain"), (fields[1], "price"), (fields[2], "start")):
        low, high = field.position_ranges()
        assert len(low) == field.width - field.missing, name
        assert (low <= high).all()
    model = mixture(domain)
    frame = sample(model, domain, 2000, seed=5).to_pandas()
    assert len(frame) == 2000
    assert frame.id.is_unique
    retired = frame.retired.astype(bool)
    known = frame.gain.notna()
    assert retired.any()
    assert (frame.gain[retired & known] == 0).all()
    start, end = (pandas.to_datetime(frame[name]) for name in ("start", "end"))
    assert (start <= end).all()
    assert (frame.price[known & (frame.gain == 0)] <= 9.99).all()
    assert (end[~retired] >= pandas.Timestamp("2020-06-01")).all()
    late = sample(model, domain, 300, seed=1, where=["start >= 2020-05-01", "retired=true", "gain in [0, missing]"])
    assert (pandas.to_datetime(late.to_pandas().start) >= pandas.Timestamp("2020-05-01")).all()
