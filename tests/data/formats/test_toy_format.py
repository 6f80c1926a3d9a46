"""A new format of files needs a file and a line in the list of formats: everything else works without changes."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

import dpgm
import toy_format
from dpgm.cli.app import load_commands, run
from dpgm.data import formats
from dpgm.errors import InputError, UsageError

ROWS = 3000
load_commands()


def box(frame):
    """The text of a box of cards."""
    cards = ("".join(f"{name}: {value}\n" for name, value in row.items()) for row in frame.to_dict("records"))
    return f"box of {', '.join(frame.columns)}\n" + "".join(f"---\n{card}" for card in cards)


def stays(seed=5):
    random = np.random.default_rng(seed)
    ward = random.integers(0, 2, ROWS)
    days = np.clip(random.normal(10 + 6 * ward, 2, ROWS), 0, 60).astype(int)
    return pd.DataFrame({"ward": np.array(["north", "south"])[ward], "days": days})


@pytest.fixture(scope="module")
def boxes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "FORMATS", (*formats.FORMATS, toy_format.CardBox("cards", (".cards",))))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory, boxes):
    """A box of stays, its draft, release, sample and report."""
    folder = tmp_path_factory.mktemp("stays")
    (folder / "real.cards").write_text(box(stays()))
    real, draft, release, made = (
        str(folder / one) for one in ("real.cards", "draft.yaml", "release", "made.cards")
    )
    assert run(["inspect", real, "--draft-domain", draft]) == 0
    assert run(["fit", real, "--domain", draft, "--epsilon", "8", "--model", "products", "--out", release]) == 0
    assert run(["sample", release, "--out", made, "--seed", "1"]) == 0
    report = str(folder / "report.html")
    assert run(["evaluate", real, made, "--release", release, "--out", report]) == 0
    return folder


def test_a_draft_is_made_from_a_file(folder):
    assert [field.kind for field in dpgm.load_domain(folder / "draft.yaml").fields] == ["categorical", "numeric"]


def test_a_fit_finds_values_privately_and_the_release_verifies(folder):
    release = dpgm.load(folder / "release")
    assert release.domain.field("ward").values == ("north", "south")
    assert dpgm.verify(folder / "release").ok


def test_samples_are_written_and_read_again(folder):
    made = dpgm.read_records(folder / "made.cards", domain=dpgm.load(folder / "release").domain)
    frame, real = made.to_pandas(), stays()
    assert len(frame) == ROWS
    for ward in ("north", "south"):
        medians = [one.loc[one.ward == ward, "days"].median() for one in (frame, real)]
        assert abs(medians[0] - medians[1]) <= 2


def test_conditional_samples_are_written(folder):
    out = str(folder / "long.cards")
    assert run(["sample", str(folder / "release"), "--out", out, "--records", "50", "--where", "days >= 14"]) == 0
    made = dpgm.read_records(out, domain=dpgm.load(folder / "release").domain)
    assert made.to_pandas()["days"].min() >= 14


def test_real_and_synthetic_values_are_compared_and_reported(folder):
    domain = dpgm.load(folder / "release").domain
    compared = dpgm.evaluate(folder / "real.cards", folder / "made.cards", domain=domain)
    assert {one.name: one.distance < 0.1 for one in compared.columns} == {"ward": True, "days": True}
    assert "days" in (folder / "report.html").read_text()
    alone = dpgm.evaluate(folder / "real.cards", folder / "made.cards")  # column by column, without a domain
    assert [one.name for one in alone.columns] == ["ward", "days"]


def test_it_is_compressed_zipped_named_and_piped_like_any_other(folder, tmp_path, monkeypatch, capsysbinary):
    assert run(["sample", str(folder / "release"), "--out", str(tmp_path / "x.cards.gz"), "--records", "20"]) == 0
    domain = dpgm.load(folder / "release").domain
    assert len(dpgm.read_records(tmp_path / "x.cards.gz", domain=domain)) == 20
    (tmp_path / "x.txt").write_text(box(stays()))
    assert len(dpgm.read_records(tmp_path / "x.txt", domain=domain, format="cards")) == ROWS
    capsysbinary.readouterr()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer := io.BytesIO()))
    assert run(["sample", str(folder / "release"), "--out", "-", "--format", "cards", "--records", "5"]) == 0
    assert buffer.getvalue().startswith(b"box of ward, days\n---\n")


def test_messages_name_it_and_its_places(folder, tmp_path):
    domain = dpgm.load(folder / "release").domain
    with pytest.raises(UsageError, match=r"\.cards"):
        dpgm.read_records(folder / "draft.yaml", domain=domain)
    (tmp_path / "x.cards").write_text("box of ward, days\n---\nward: north\nlength: 3\n")
    with pytest.raises(InputError, match=r"x.cards: line 4: is no `name: value`"):
        dpgm.read_records(tmp_path / "x.cards", domain=domain)
    (tmp_path / "x.cards").write_text("box of ward, days\n---\nward: north\ndays: 3\n---\nward: north\ndays: x\n")
    with pytest.raises(InputError, match=r"card in line 5, column 'days'"):
        dpgm.read_records(tmp_path / "x.cards", domain=domain)
    with pytest.raises(UsageError, match="`labels`"):
        dpgm.read_records(tmp_path / "x.cards", domain=domain, labels=tmp_path / "y")
