"""Which process speaks and writes."""

import pytest

from dpgm.cli.app import is_first, rank_and_size, run


@pytest.mark.parametrize("others", [{"RANK": "3"}, {"RANK": "1", "WORLD_SIZE": "4"}])
def test_a_rank_that_torchrun_did_not_give_is_not_looked_at(monkeypatch, others):
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    assert rank_and_size() == (0, 1)
    assert is_first()


def test_a_fit_in_a_job_that_sets_a_rank_still_writes_its_release(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    data = tmp_path / "people.csv"
    data.write_text("".join(f"{'a' if row % 2 else 'a,b'}\n" for row in range(60)))
    options = ("--shape", "basket", "--assume-public-items", "--epsilon", "1", "--model", "independent")
    assert run(["fit", str(data), *options, "--out", str(tmp_path / "release")]) == 0
    assert (tmp_path / "release" / "certificate.json").exists()
    assert "release written" in capsys.readouterr().err
