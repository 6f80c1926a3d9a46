"""A new kind of column needs a file and a line in the list of kinds: everything else works without changes."""

import numpy as np
import pandas as pd
import pytest

import dpgm
import toy_kind
from dpgm.cli.app import load_commands, run
from dpgm.data import kinds
from dpgm.errors import InputError, UsageError

ROWS = 3000
load_commands()


def minutes(texts):
    written = toy_kind.Duration("stay")
    return np.array([written.number_of(text) for text in texts if isinstance(text, str)])


@pytest.fixture(scope="module")
def durations():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "KINDS", (toy_kind.Duration, toy_kind.FoundDuration, *kinds.KINDS))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory, durations):
    """A file of stays, 100 minutes long on one ward and 160 on the other; its draft, release, sample and report."""
    folder = tmp_path_factory.mktemp("stays")
    random = np.random.default_rng(5)
    ward = random.integers(0, 2, ROWS)
    stay = np.clip(random.normal(100 + 60 * ward, 20, ROWS), 1, 600).astype(int)
    texts = [f"{one // 60}h{one % 60:02}" for one in stay]
    texts[::10] = [""] * len(texts[::10])
    pd.DataFrame({"ward": np.array(["a", "b"])[ward], "stay": texts}).to_csv(folder / "real.csv", index=False)
    real, draft, release, made = (str(folder / name) for name in ("real.csv", "draft.yaml", "release", "made.csv"))
    assert run(["inspect", real, "--draft-domain", draft]) == 0
    assert run(["fit", real, "--domain", draft, "--epsilon", "8", "--model", "products", "--out", release]) == 0
    assert run(["sample", release, "--out", made, "--seed", "1"]) == 0
    report = str(folder / "report.html")
    assert run(["evaluate", real, made, "--release", release, "--out", report]) == 0
    return folder


def test_a_draft_states_the_kind(folder):
    assert [field.kind for field in dpgm.load_domain(folder / "draft.yaml").fields] == ["categorical", "duration"]


def test_a_fit_finds_its_distribution_privately_and_the_release_verifies(folder):
    release = dpgm.load(folder / "release")
    field = release.domain.field("stay")
    assert (field.kind, field.missing) == ("found duration", True)
    assert {"value bounds", "number histograms"} <= {one.name for one in release.certificate.mechanisms}
    assert dpgm.verify(folder / "release").ok


def test_samples_are_written_as_the_data_and_keep_gaps_and_relations(folder):
    real, made = (pd.read_csv(folder / name) for name in ("real.csv", "made.csv"))
    assert len(minutes(made["stay"])) == made["stay"].notna().sum()
    assert abs(made["stay"].isna().mean() - 0.1) < 0.05
    for ward in "ab":
        medians = [np.median(minutes(frame.loc[frame["ward"] == ward, "stay"])) for frame in (real, made)]
        assert abs(medians[0] - medians[1]) < 20


@pytest.mark.parametrize(
    ("where", "least", "most"),
    [("stay >= 2h30", 150, 600), ("stay in [1h40, 1h41]", 100, 101), ("stay < 1h45 and ward = b", 0, 104)],
)
def test_conditions_take_values_as_the_kind_writes_them(folder, where, least, most):
    stays = minutes(dpgm.load(folder / "release").sample(200, seed=3, where=where).to_pandas()["stay"])
    assert len(stays) == 200
    assert least <= stays.min()
    assert stays.max() <= most


def test_a_condition_on_no_value_is_refused(folder):
    with pytest.raises(UsageError, match="stay"):
        dpgm.load(folder / "release").sample(10, seed=3, where="stay >= long")


def test_real_and_synthetic_values_are_compared_and_reported(folder):
    domain = dpgm.load(folder / "release").domain
    compared = dpgm.evaluate(folder / "real.csv", folder / "made.csv", domain=domain)
    stay = next(one for one in compared.columns if one.name == "stay")
    assert stay.kind == "number"
    assert stay.distance < 0.15
    assert "stay" in (folder / "report.html").read_text()


def test_a_cell_that_is_none_is_refused_with_its_place(folder, tmp_path):
    (tmp_path / "bad.csv").write_text("ward,stay\na,2h30\nb,soon\n")
    with pytest.raises(InputError, match=r"line 3, column 'stay'.*2h30"):
        dpgm.read_records(tmp_path / "bad.csv", domain=dpgm.load(folder / "release").domain)
