"""Fits of rows in several places: the release of one pass, whatever the number of parts; wrong parts are refused."""

import json
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import torch

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.data.domain import Categorical, Domain
from dpgm.data.read.frames import read_frame
from dpgm.errors import ArtefactError, UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.keys import create_keys, read_sealing_key, read_unsealing_key
from dpgm.strategy.settings import Config
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.part_files import PartFolder, write_part
from dpgm.synthesis.parts import MeasuredPart, PartRequest, Waiting, fit_parts, measure_part
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.readme import MADE_IN_MEMORY, SEVERAL_PLACES, VOUCHED
from synthesis_data import IMAGES, SETS, TABLE, some_records
from whole_fits import PICTURES

load_commands()
ROWS = 120


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return create_keys(tmp_path_factory.mktemp("keys") / "curator", "seal")


def shares(records, count):
    """Consecutive parts of records, of different sizes."""
    ends = np.linspace(0, 1, count + 1) ** 1.3 * len(records)
    return [records.rows(int(first), int(last)) for first, last in pairwise(ends)]


def measured(records, request, count, source=MADE_IN_MEMORY):
    """All parts that answer a request, each by a place that read the request from a file."""
    sent = request.to_json()
    return [
        measure_part(share, source, PartRequest.from_json(sent), number, count)
        for number, share in enumerate(shares(records, count), 1)
    ]


def open_sets(folder):
    """Item sets whose items are to be found, with few items per record: no secret choice among them."""
    rng = np.random.default_rng(3)
    lines = [",".join(sorted({f"place {one}" for one in rng.geometric(0.3, size=3)})) for _ in range(ROWS)]
    (folder / "visits.csv").write_text("\n".join(lines))
    return dpgm.read_records(folder / "visits.csv", shape="basket", discover=True)


def open_table(folder):
    """A table whose values are to be found."""
    rng = np.random.default_rng(4)
    columns = {
        "ward": rng.choice(["a", "b", "c"], ROWS),
        "age": rng.integers(0, 90, ROWS),
        "paid": rng.random(ROWS),
    }
    return read_frame(pa.table(columns), None, discover=True).records


CASES = {
    "sets": lambda folder: some_records(SETS, ROWS),
    "table": lambda folder: some_records(TABLE, ROWS),
    "images": lambda folder: some_records(IMAGES, ROWS),
    "sets to discover": open_sets,
    "table to discover": open_table,
}


@pytest.mark.parametrize("case", CASES)
def test_parts_give_the_release_of_one_pass(case, tmp_path, short_fits):
    records = CASES[case](tmp_path)
    plan = make_plan(Config(1.0), ROWS, records.domain)
    if case == "images":
        plan = replace(plan, settings=replace(plan.settings, family=PICTURES))
    whole = dpgm.Synthesizer(1.0, randomness=SeededRandomness(5)).fit(records, plan=plan)
    for count in (1, 3, 7):
        asked = []

        def collect(request, mechanism, count=count, asked=asked):
            asked.append((request.round, mechanism))
            return measured(records, request, count)

        folder = tmp_path / str(count)
        made = fit_parts(plan, records.domain, collect, randomness=SeededRandomness(5), checkpoint=folder)
        assert made.domain == whole.domain_
        first, second = whole.generator_.state(), made.generator.state()
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert made.certificate.mechanisms == whole.certificate_.mechanisms
        assert [number for number, _ in asked] == [1 + at for at in range(len(plan.mechanisms))]
        assert sorted(name for _, name in asked) == sorted(one.name for one in plan.mechanisms)
        assert (SEVERAL_PLACES in made.certificate.statements) == (count > 1)


def test_a_query_in_one_place_is_in_the_certificate_whatever_part_comes_first(tmp_path, short_fits):
    records = some_records(SETS, ROWS)
    plan = make_plan(Config(1.0), ROWS, records.domain)

    def made(place):
        def collect(request, mechanism):
            parts = measured(records, request, 2)
            parts[place] = replace(parts[place], source=replace(parts[place].source, vouched=request.round > 1))
            return parts

        folder = tmp_path / str(place)
        return fit_parts(plan, records.domain, collect, randomness=SeededRandomness(5), checkpoint=folder)

    assert len(plan.mechanisms) > 1
    assert all(VOUCHED in made(place).certificate.statements for place in (0, 1))


# -- wrong parts --------------------------------------------------------------------------------------------------


@pytest.fixture
def first_round():
    records = some_records(SETS, ROWS)
    request = PartRequest.first(make_plan(Config(1.0), ROWS, SETS), SETS)
    return records, request, measured(records, request, 3)


def _fit(request, parts, path):
    return fit_parts(request.plan, request.domain, lambda *_: parts, checkpoint=path)


WRONG = {
    "a part twice": (lambda parts: [*parts, parts[0]], "there twice"),
    "a part of other parts": (lambda parts: [parts[0], parts[1], _changed(parts[2], of=4)], "one of"),
    "of another request": (lambda parts: [*parts[:2], _changed(parts[2], request="0" * 64)], "another request"),
    "another mechanism": (
        lambda parts: [*parts[:2], _changed(parts[2], mechanism="item counts")],
        "differs from this fit in mechanism",
    ),
    "another sensitivity": (
        lambda parts: [*parts[:2], _changed(parts[2], sensitivity=7.0)],
        "differs from this fit in sensitivity",
    ),
    "another noise": (lambda parts: [*parts[:2], _changed(parts[2], noise=7.0)], "differs from this fit in noise"),
    "another grid": (lambda parts: [*parts[:2], _changed(parts[2], grid=0.125)], "differs from this fit in grid"),
    "all of another grid": (
        lambda parts: [
            replace(_changed(part, grid=part.heading["grid"] / 16), exact=part.exact * 16) for part in parts
        ],
        "differs from this fit in grid",
    ),
    "all of another version": (
        lambda parts: [_changed(part, versions=["99", "x", "y", "z"]) for part in parts],
        "differs from this fit in versions",
    ),
    "another version": (
        lambda parts: [*parts[:2], _changed(parts[2], versions=["1"])],
        "differs from this fit in versions",
    ),
    "all of another mechanism": (
        lambda parts: [_changed(one, mechanism="pairs") for one in parts],
        "differs from this fit in mechanism",
    ),
    "another shape": (
        lambda parts: [*parts[:2], replace(parts[2], exact=parts[2].exact[:-1])],
        "another number of sums",
    ),
    "another unit": (
        lambda parts: [*parts[:2], replace(parts[2], source=replace(parts[2].source, unit="person"))],
        "other options",
    ),
    "a record less": (
        lambda parts: [*parts[:2], replace(parts[2], records=parts[2].records - 1)],
        "another number",
    ),
}


def _changed(part, **changes):
    return replace(part, heading={**part.heading, **changes})


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parts_are_refused_and_nothing_is_charged(first_round, tmp_path, name):
    _, request, parts = first_round
    change, message = WRONG[name]
    ledger = dpgm.Ledger.create(tmp_path / "ledger", 5.0, 1e-3)
    with pytest.raises(ArtefactError, match=message):
        fit_parts(request.plan, request.domain, lambda *_: change(parts), checkpoint=tmp_path / "c", ledger=ledger)
    assert not Checkpoint.charges_in(tmp_path / "c")


def test_missing_parts_are_waited_for(first_round, tmp_path):
    _, request, parts = first_round
    with pytest.raises(Waiting, match="missing: 2 of 3") as waiting:
        _fit(request, [parts[0], parts[2]], tmp_path / "c")
    assert waiting.value.request == request
    with pytest.raises(Waiting, match="no part is there"):
        _fit(request, [], tmp_path / "c")


def test_a_place_reads_by_the_domain_of_the_request(first_round):
    _, request, _ = first_round
    other = Domain((Categorical("a", values=("x", "y")),))
    with pytest.raises(UsageError, match="another domain"):
        measure_part(some_records(other, 10), MADE_IN_MEMORY, request, 1, 1)
    with pytest.raises(UsageError, match="k/n"):
        measure_part(some_records(SETS, 10), MADE_IN_MEMORY, request, 4, 3)


def test_networks_are_refused_in_a_sentence():
    plan = make_plan(Config(1.0, model="vae"), ROWS, SETS)
    with pytest.raises(UsageError, match="fresh sample of the rows"):
        PartRequest.first(plan, SETS)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(seed=d["seed"] + 1, note=1),
        lambda d: d.update(format=99),
        lambda d: d.pop("seed"),
        lambda d: d["plan"].update(epsilon=0.1),
        lambda d: d["plan"]["mechanisms"].pop(),
        lambda d: d["answers"].append(["pairs", "float64", [2], "AAAA"]),
        lambda d: d["answers"].append(["pairs", "object", [1], "AAAAAAAAAAA="]),
    ],
)
def test_a_request_that_is_none_is_refused(first_round, change):
    document = json.loads(first_round[1].to_json())
    change(document)
    with pytest.raises(ArtefactError):
        PartRequest.from_json(json.dumps(document, separators=(",", ":")) + "\n")


def test_the_length_of_a_file_does_not_tell_how_many_values_a_place_has(keys):
    """Discovery: one person more, with a value that nobody else has."""
    domain = Domain.of_columns([Categorical("ward", (), discover=True)])
    public = read_sealing_key(keys[1])
    sizes = set()
    for values in (["a", "b"] * 500, ["a", "b"] * 499 + ["a", "a value of one person"]):
        read = read_frame(pa.table({"ward": values}), domain)
        plan = make_plan(Config(1.0, 1e-6), len(read.records), read.records.domain)
        part = measure_part(read.records, read.source, PartRequest.first(plan, read.records.domain), 1, 1)
        assert part.labels is not None
        content = part.sealed(public)
        assert b"shape" not in content
        sizes.add(len(content))
    assert len(sizes) == 1


# -- sealed files -------------------------------------------------------------------------------------------------


def test_files_of_parts_are_private_and_any_change_is_seen(first_round, tmp_path, keys):
    _, request, parts = first_round
    for part in parts:
        write_part(part, tmp_path / f"{part.heading['part']}.sums", read_sealing_key(keys[1]))
    file = tmp_path / "1.sums"
    assert file.stat().st_mode & 0o777 == 0o600
    collect = PartFolder(tmp_path, read_unsealing_key(keys[0]))
    found = collect(request, "record lengths")
    assert [torch.equal(one.exact, part.exact) for one, part in zip(found, parts, strict=True)] == [True] * 3
    content = file.read_bytes()
    assert parts[0].exact.numpy().tobytes() not in content
    for at in range(0, len(content), max(1, len(content) // 60)):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(ArtefactError, match=r"1\.sums: .*get this part again"):
            collect(request, "record lengths")
    file.write_bytes(MeasuredPart.sealed(_changed(parts[0], request="0" * 64), read_sealing_key(keys[1])))
    with pytest.raises(ArtefactError, match="answers another request"):
        collect(request, "record lengths")


# -- the commands -------------------------------------------------------------------------------------------------


def test_three_places_and_a_curator_by_commands(tmp_path, capsys, monkeypatch, short_fits):
    """The curator plans, three places measure round after round, and the release verifies like any other."""
    monkeypatch.chdir(tmp_path)
    records = some_records(SETS, ROWS)
    names = ["north.csv", "south.csv", "west.csv"]
    for name, share in zip(names, shares(records, 3), strict=True):
        share.write(name, shape="wide")
    field = {"name": "items", "kind": "items", "items": [*range(12)]}
    (tmp_path / "domain.json").write_text(json.dumps({"fields": [field]}))
    (tmp_path / "parts").mkdir()
    assert run(["keys", "create", "curator", "--seal"]) == 0
    plan = ["plan", "--epsilon", "1", "--records", str(ROWS), "--domain", "domain.json", "--out", "plan.json"]
    assert run(plan) == 0
    fit = ["fit", "--sums", "parts", "--plan", "plan.json", "--domain", "domain.json", "--key", "curator.key"]
    fit += ["--out", "release", "--quiet"]
    for number in range(1, 10):
        capsys.readouterr()
        assert run(fit) == 0
        if (tmp_path / "release").is_dir():
            break
        assert f"round-{number}.request.json" in capsys.readouterr().err
        asks = ["--request", f"parts/round-{number}.request.json"]
        if number == 1:
            asks = ["--plan", "plan.json", "--domain", "domain.json"]
        for part, name in enumerate(names, 1):
            out = f"parts/{name}.{number}.sums"
            measure = ["measure", name, "--shape", "wide", *asks, "--part", f"{part}/3", "--key", "curator.pub"]
            assert run([*measure, "--out", out]) == 0
            assert "exact, not private" in capsys.readouterr().err
    assert number == 4  # record lengths, item counts, pair counts
    assert run(["verify", "release"]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = dpgm.load(tmp_path / "release")
    assert SEVERAL_PLACES in opened.certificate.statements
    assert opened.certificate.records == ROWS
    assert not (tmp_path / "release.checkpoint").exists()


def test_the_commands_say_what_is_missing(tmp_path, capsys, monkeypatch, keys):
    monkeypatch.chdir(tmp_path)
    some_records(SETS, 30).write("data.parquet")
    measure = ["measure", "data.parquet", "--key", str(keys[1]), "--part", "1/2"]
    fit = ["fit", "--out", "r"]
    for arguments, message in (
        ([*measure, "--out", "a.txt"], "must end in .sums"),
        ([*measure, "--out", "a.sums"], "`--plan` in the first round"),
        ([*measure[:-1], "2", "--out", "a.sums"], "--part must be K/N"),
        ([*fit, "--epsilon", "1"], "DATA is missing"),
        ([*fit, "--sums", ".", "--epsilon", "1"], "`--plan` is missing"),
        ([*fit, "data.parquet", "--sums", ".", "--epsilon", "1"], "`--sums` takes the place of DATA"),
    ):
        assert run(arguments) == 2
        assert message in capsys.readouterr().err
