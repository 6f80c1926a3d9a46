"""A comparison with a release reads the real file as the fit did, or says which options are missing."""

import numpy as np
import pandas as pd
import pytest

import dpgm
import dpgm.cli.synthetic
from dpgm.cli.app import run
from dpgm.errors import InputError
from dpgm.evaluation.evaluate import evaluate

FIELDS = [
    {"name": "town", "kind": "categorical", "values": ["a", "b"]},
    {"name": "bill", "kind": "numeric", "low": 0, "high": 100, "decimals": 1},
    {"name": "codes", "kind": "items", "items": ["x", "y", "z"], "separator": "|"},
]
OPTIONS = {"separator": ";", "decimal": ",", "missing": ("k.A.",)}


def stays(count=600, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(["a", "b", "k.A."], count, p=[0.5, 0.4, 0.1])
    codes = ["|".join(np.array(["x", "y", "z"])[row]) for row in rng.random((count, 3)) < [0.6, 0.3, 0.2]]
    return pd.DataFrame({"town": town, "bill": (100 * rng.random(count)).round(1), "codes": codes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file with commas, a spelling of missing values and lists; a release made of it, and a sample."""
    folder = tmp_path_factory.mktemp("fitted")
    written = stays()
    written["bill"] = written.bill.map(lambda value: f"{value:.1f}".replace(".", ","))
    written.to_csv(folder / "real.csv", sep=";", index=False)
    fields = [dict(one) for one in FIELDS]
    fields[0]["missing"] = True
    synthesizer = dpgm.Synthesizer(epsilon=5.0, domain={"fields": fields})
    synthesizer.fit(str(folder / "real.csv"), **OPTIONS)
    synthesizer.save(folder / "release")
    synthesizer.sample(600, seed=1).write(folder / "synthetic.csv")
    return folder


def judged(folder, capsys, *options):
    code = run(
        ["evaluate", f"{folder}/real.csv", f"{folder}/synthetic.csv", "--release", f"{folder}/release", *options]
    )
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_spellings_of_missing_values_and_separators_of_lists_are_those_of_the_fit(folder, capsys):
    code, text = judged(folder, capsys, "--decimal", ",")
    whole, stated = judged(folder, capsys, "--decimal", ",", "--missing", "k.A.", "--item-separator", "|")
    assert (code, whole) == (0, 0)
    assert text.splitlines()[0] == stated.splitlines()[0]
    assert "k.A." not in text


def test_numbers_that_cannot_be_read_are_refused_with_the_options_to_state(folder, capsys):
    code, text = judged(folder, capsys)
    assert code == 2
    assert "column 'bill'" in text
    assert "--decimal" in text


def test_a_domain_that_leaves_numbers_open_is_as_strict():
    real, domain = (
        pd.DataFrame({"bill": ["1,5", "2,5"] * 40}),
        {"fields": [{"name": "bill", "kind": "numeric", "low": "discover", "high": "discover"}]},
    )
    with pytest.raises(
        InputError, match="column 'bill' of the real data: the domain says that its values are numbers"
    ):
        evaluate(real, pd.DataFrame({"bill": [1.5, 2.5] * 40}), domain=domain)


@pytest.mark.parametrize("option", [(), ("--item-separator", "|")])
def test_lists_in_csv_files_are_lists_without_a_release(tmp_path, capsys, option):
    for seed, name in enumerate(("real", "synthetic")):
        stays(seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    made = [f"{tmp_path}/real.csv", f"{tmp_path}/synthetic.csv"]
    assert run(["evaluate", *made, *option, "--json", f"{tmp_path}/out.json", "--quiet"]) == 0
    broken = stays(seed=1).assign(codes=stays(seed=1).codes.str.replace("z", "").str.strip("|"))
    broken.to_csv(tmp_path / "synthetic.csv", index=False)
    assert run(["evaluate", *made, *option]) == 0
    assert "z in codes: 0 % instead of" in capsys.readouterr().out


def test_lists_written_as_json_are_lists():
    frames = [stays(seed=seed) for seed in (0, 1)]
    for frame in frames:
        frame["codes"] = [str(cell.split("|")).replace("'", '"') for cell in frame.codes]
    made = evaluate(*frames)
    assert made.data.kind == "table"  # in frames, a text is a text
