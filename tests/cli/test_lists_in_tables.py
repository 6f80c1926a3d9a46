"""What a newcomer stumbled over: lists within tables, releases that cannot hold every real value, cut-off tails."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpgm
from dpgm.cli.app import run
from dpgm.data.domain import Numeric
from dpgm.data.number_grids import BOUND_SLOTS, bound_slot
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.synthesis.number_shapes import estimate_bounds

CODES = ("I10", "E11.9", "01067", "J45")


def hospital(folder, rows=300):
    draws = np.random.default_rng(0)
    people = [
        {
            "sex": str(draws.choice(["F", "M"])),
            "ward": str(draws.choice(["A", "B"])) if row % 40 else "",  # now and then missing
            "diagnoses": sorted({str(code) for code in draws.choice(CODES, 2)}),
        }
        for row in range(rows)
    ]
    with (folder / "hospital.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(people[0])
        writer.writerows([one["sex"], one["ward"], ";".join(one["diagnoses"])] for one in people)
    pq.write_table(pa.Table.from_pylist(people), folder / "hospital.parquet")
    return folder / "hospital.csv"


def test_items_side_by_side_in_a_column_of_a_table(tmp_path):
    domain = {"fields": [{"name": "sex", "kind": "categorical", "values": ["F", "M"]}]}
    domain["fields"].append({"name": "diagnoses", "kind": "items", "items": list(CODES)})
    records = dpgm.read_records(hospital(tmp_path), domain=domain, item_separator=";", header=True)
    counts = records.to_dense().sum(axis=0)
    assert (counts[2:] > 50).all()
    assert (
        run(["inspect", str(tmp_path / "hospital.csv"), "--kind", "diagnoses=items", "--item-separator", ";"]) == 0
    )


def test_lists_beside_other_columns_are_a_table_not_baskets(tmp_path, capsys):
    hospital(tmp_path)
    assert run(["inspect", str(tmp_path / "hospital.parquet")]) == 0
    printed = capsys.readouterr().out
    assert "sex" in printed
    assert "diagnoses" in printed


def test_a_release_is_evaluated_on_the_data_it_was_fitted_to(tmp_path):
    data, draft = hospital(tmp_path), tmp_path / "draft.yaml"
    separated = ("--item-separator", ";")
    kinds = ("--kind", "diagnoses=items", "--draft-domain", str(draft))
    assert run(["inspect", str(data), *separated, *kinds]) == 0
    fitted = ("--domain", str(draft), "--epsilon", "1", "--model", "independent", "--quiet")
    assert run(["fit", str(data), *separated, *fitted, "--out", str(tmp_path / "release")]) == 0
    drawn = ("--records", "300", "--out", str(tmp_path / "synthetic.csv"))
    assert run(["sample", str(tmp_path / "release"), *drawn]) == 0
    compared = (str(data), str(tmp_path / "synthetic.csv"), "--release", str(tmp_path / "release"))
    assert run(["evaluate", *compared, *separated, "--quiet"]) == 0


def test_a_tail_that_is_significant_only_in_sum_is_within_the_bounds():
    field = Numeric("cost", low="discover", high="discover", decimals=2)
    counts = np.zeros(BOUND_SLOTS)
    for cost, people in ((100, 900), (1000, 500), (2000, 50), (4000, 45)):
        counts[bound_slot(np.array([100.0 * cost]))[0]] += people
    low, high = estimate_bounds(field, counts, 20.0, DiscoveryRules())
    assert high >= 100 * 4000
    fraction = counts.copy()
    fraction[bound_slot(np.array([-1e-10, 1e-10]))] = 900.0  # noise, where no whole number lies
    assert estimate_bounds(field, fraction, 20.0, DiscoveryRules())[0] == 0  # it was -1e-10, and the fit failed
    lonely = counts.copy()
    lonely[-3] = 60.0  # noise far out is not believed
    assert estimate_bounds(field, lonely, 20.0, DiscoveryRules()) == (low, high)
