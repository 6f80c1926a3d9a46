"""A domain that came from the data is never published unnoticed."""

import json

import numpy as np
import pytest

from data_strategies import random_records
from dpgm.cli.app import load_commands, run
from dpgm.data.domain import Domain
from dpgm.data.domain_file import load_domain, save_domain
from dpgm.data.inspection import held_by_one, inspect_file
from dpgm.data.read.readers import read_records
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.synthesis.synthesizer import Synthesizer


@pytest.fixture(autouse=True)
def commands():
    load_commands()


@pytest.fixture
def baskets(tmp_path):
    random_records(300, 8, 2).write(tmp_path / "b.dat")
    return tmp_path / "b.dat"


@pytest.mark.parametrize("name", ["d.yaml", "d.json"])
def test_a_draft_says_that_it_came_from_the_data_and_a_fit_refuses_it(baskets, tmp_path, name, capsys):
    draft = tmp_path / name
    assert run(["inspect", str(baskets), "--draft-domain", str(draft)]) == 0
    assert "drafted_from_data" in draft.read_text()
    assert load_domain(draft).origin == "drafted"
    fit = ["fit", str(baskets), "--domain", str(draft), "--epsilon", "1", "--quiet", "--out"]
    capsys.readouterr()
    assert run([*fit, str(tmp_path / "r")]) == 2
    assert "--assume-public-domain" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    with pytest.raises(UsageError, match="assume_public_domain"):
        Synthesizer(epsilon=1.0).fit(read_records(baskets, domain=draft))
    with pytest.raises(UsageError, match="assume_public_domain"):
        Synthesizer(epsilon=1.0, domain=load_domain(draft)).fit(np.eye(8, dtype=bool).repeat(20, axis=0))


def test_the_certificate_states_a_declared_draft_but_not_a_corrected_one(baskets, tmp_path, capsys):
    draft = tmp_path / "d.json"
    inspect_file(baskets, draft_domain=draft)
    fit = ["fit", str(baskets), "--domain", str(draft), "--epsilon", "1", "--quiet", "--out"]
    assert run([*fit, str(tmp_path / "r"), "--assume-public-domain"]) == 0
    sentence = "The domain was drafted from the data"
    assert sentence in (tmp_path / "r" / "certificate.json").read_text()
    assert sentence in (tmp_path / "r" / "README.md").read_text()
    assert run(["verify", str(tmp_path / "r")]) == 0
    plain = json.loads(draft.read_text())
    del plain["drafted_from_data"]
    draft.write_text(json.dumps(plain))
    assert run([*fit, str(tmp_path / "s")]) == 0
    assert sentence not in (tmp_path / "s" / "certificate.json").read_text()


def test_a_draft_may_be_inspected_and_evaluated_with(baskets, tmp_path):
    draft = tmp_path / "d.yaml"
    inspect_file(baskets, draft_domain=draft)
    assert inspect_file(baskets, domain=draft).records == 300
    assert run(["evaluate", str(baskets), str(baskets), "--domain", str(draft), "--quiet"]) == 0


def test_the_origin_of_a_domain_survives_its_file_and_does_not_tell_domains_apart(tmp_path):
    stated = Domain.of_items(3)
    drafted = Domain.of_items(3)
    object.__setattr__(drafted, "origin", "drafted")
    assert stated == drafted
    assert drafted.declared_public().origin == "declared"
    assert stated.declared_public().origin == "stated"
    save_domain(drafted.declared_public(), tmp_path / "d.yaml")
    assert load_domain(tmp_path / "d.yaml").origin == "drafted"
    save_domain(stated, tmp_path / "s.yaml")
    assert "drafted" not in (tmp_path / "s.yaml").read_text()
    (tmp_path / "x.yaml").write_text("drafted_from_data: maybe\nfields: [{name: i, kind: items, items: [1]}]\n")
    with pytest.raises(UsageError, match="drafted_from_data"):
        load_domain(tmp_path / "x.yaml")


def test_items_of_one_person_are_counted_for_the_curators_eyes_only(tmp_path, capsys):
    domain = Domain.of_items(["a", "b", "c", "d"])
    assert held_by_one(Records.from_lists([[0, 1], [0, 2], []], domain)) == 2
    path = tmp_path / "x.csv"
    path.write_text("a,rare-one\na,b\nb,rare-two\n" + "a,b\n" * 100)
    out = tmp_path / "r"
    fit = ["fit", str(path), "--shape", "basket", "--assume-public-items", "--epsilon", "1", "--out", str(out)]
    assert run(fit) == 0
    assert "2 of the 4 items or values of the domain are held by one person only" in capsys.readouterr().err
    for file in out.iterdir():
        assert b"held by one" not in file.read_bytes()
    assert run(["inspect", str(path), "--shape", "basket", "--draft-domain", str(tmp_path / "d.yaml")]) == 0
    assert "2 of the items or values in the draft are held by one person only" in capsys.readouterr().err
    assert "held" not in (tmp_path / "d.yaml").read_text()
