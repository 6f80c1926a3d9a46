"""A curator's look at a file, and the draft of a domain."""

import json

import pytest

from data_strategies import random_records
from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Numeric
from dpgm.data.domain_file import load_domain
from dpgm.data.inspection import inspect_file
from dpgm.errors import UsageError


@pytest.fixture(autouse=True)
def commands():
    import dpgm.cli.data  # noqa: F401


def test_a_table_gets_a_draft_domain_that_reads_it(tmp_path, capsys):
    rows = "".join(f"{at % 60 + 18},{'yes' if at % 3 else 'no'},{at / 7},{at % 4},\n" for at in range(200))
    (tmp_path / "t.csv").write_text(
        "age,member,score,group,note\n" + rows.replace(",\n", ",?\n", 5).replace(",\n", ",ok\n")
    )
    draft = tmp_path / "d.yaml"
    assert run(["inspect", str(tmp_path / "t.csv"), "--missing", "?", "--draft-domain", str(draft)]) == 0
    out, err = capsys.readouterr()
    assert "records    200" in out
    assert "curator only" in out
    assert "not public knowledge" in err
    assert draft.read_text().startswith("# curator only: derived from the data; remove anything that is not public")
    domain = load_domain(draft)
    assert domain.field("age") == Numeric("age", 18, 77, 20, True)
    assert domain.field("member") == Categorical("member", ("no", "yes"))
    assert domain.field("group") == Categorical("group", (0, 1, 2, 3))
    assert domain.field("note") == Categorical("note", ("ok",), True)
    assert not domain.field("score").integer
    assert inspect_file(tmp_path / "t.csv", domain=domain, missing=["?"]).records == 200


def test_baskets_show_their_lengths(tmp_path, capsys):
    records = random_records(50, 20, 3)
    records.write(tmp_path / "b.dat")
    assert run(["inspect", str(tmp_path / "b.dat"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["records"] == 50
    assert shown["longest"] == records.lengths.max()
    assert shown["mean_length"] == pytest.approx(records.lengths.mean())
    assert "curator only" in shown["note"]
    assert shown["domain_is_draft"] is True


def test_a_file_that_is_not_clear_is_still_asked_about(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"name{at},1\n" for at in range(2000)))
    with pytest.raises(UsageError, match="different texts"):
        inspect_file(tmp_path / "t.csv")
