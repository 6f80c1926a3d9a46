"""The whole evaluation: its metrics, the list of metrics that could not be computed, and the command line."""

import json

import numpy as np
import pytest

import dpgm.cli.synthetic  # noqa: F401  (registers the command)
from dpgm.baselines.estimators import AnswerZero
from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Domain, Image, Numeric
from dpgm.data.domain_file import save_domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.downstream import downstream, image_accuracy
from dpgm.evaluation.evaluate import evaluate, kind_of, summary_table
from dpgm.evaluation.inputs import with_domain
from dpgm.evaluation.verdict import verdict


def sets(count=400, width=12, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.random((count, 1)) < 0.5
    chances = np.where(hidden, np.linspace(0.7, 0.05, width), np.linspace(0.05, 0.4, width))
    names = [f"item {at}" for at in range(width)]
    return Records.from_dense(rng.random((count, width)) < chances, Domain.of_items(names))


TABLE = Domain(
    (Numeric("age", 0, 80, 8), Categorical("city", ("here", "there", "far")), Categorical("rich", ("no", "yes"))),
    label="rich",
)


def table(count=600, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(0, 8, count), rng.integers(0, 3, count)
    rich = ((age > 3) ^ (rng.random(count) < noise)).astype(int)
    return Records.from_lists(np.stack([age, 8 + city, 11 + rich], axis=1).tolist(), TABLE)


PICTURES = Domain((Image("image", 8, 8), Categorical("label", (0, 1))), label="label")


def pictures(count=300, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    images = rng.random((count, 8, 8)) < 0.1
    images[label == 0, :4] |= rng.random((int((label == 0).sum()), 4, 8)) < 0.7
    images[label == 1, 4:] |= rng.random((int((label == 1).sum()), 4, 8)) < 0.7
    return Records.from_dense(np.concatenate([images.reshape(count, 64), np.eye(2)[label]], axis=1), PICTURES)


def test_identical_sets_have_no_error_anywhere():
    records = sets()
    made = evaluate(records, records)
    assert all(row.mean["synthetic"] == 0.0 for row in made.counting.rows)
    assert made.items.lengths.total_variation == 0.0
    assert made.items.pairs.mean_total_variation == made.items.pairs.mean_correlation_difference == 0.0
    assert made.items.frequent_sets.precision == made.items.frequent_sets.recall == 1.0
    assert not [text for text in verdict(made).bad if "equal a real record" not in text]


def test_every_missing_metric_is_listed_with_its_reason():
    made = evaluate(sets(), sets(seed=1))
    listed = {entry.metric: entry.reason for entry in made.not_computed}
    assert "names no label" in listed["downstream accuracy"]
    assert "fewer than two categorical" in listed["pairs of columns"]
    few = evaluate(
        Records.from_lists([[0], [0, 1]], Domain.of_items(3)), Records.from_lists([[0]], Domain.of_items(3))
    )
    assert {f"popular queries of {n} items" for n in (3, 4)} <= {entry.metric for entry in few.not_computed}


def test_order_of_records_changes_nothing():
    real, synthetic = sets(), sets(seed=1)
    shuffled = synthetic.take(np.random.default_rng(0).permutation(len(synthetic)))
    others = {"independent": sets(seed=2)}
    first, second = (evaluate(real, s, baselines=others) for s in (synthetic, shuffled))
    assert first.to_dict() == second.to_dict()


def test_summary_table_has_the_synthesizer_and_the_baselines():
    header, rows = summary_table(evaluate(sets(), sets(seed=1)))
    assert header == ("method", "pop1", "pop2", "pop3", "pop4", "lengths")
    assert [row[0] for row in rows] == ["synthetic", "independent", "answer 0"]
    assert all(isinstance(cell, float) for row in rows for cell in row[1:])


def test_own_queries_and_own_baselines_are_used():
    real = sets()
    made = evaluate(
        real, sets(seed=1), queries=[[0, 1], [2]], baselines={"empty": AnswerZero().fit(real).sample(9)}
    )
    assert made.counting.baselines == ("empty", "answer 0")
    own = [row for row in made.counting.rows if row.workload == "yours"]
    assert [row.reading for row in own] == ["all", "any"]
    assert own[0].mean["empty"] == own[0].mean["answer 0"] == 1.0


def test_json_holds_the_same_numbers_and_says_curator_only():
    made = evaluate(sets(), sets(seed=1))
    document = json.loads(made.to_json())
    assert document["audience"].startswith("curator only")
    assert document["items"]["lengths"]["total_variation"] == pytest.approx(made.items.lengths.total_variation)
    assert document["verdict"]["grade"] == verdict(made).grade
    assert len(document["not_computed"]) == len(made.not_computed)


def test_random_noise_is_called_rough():
    rng = np.random.default_rng(0)
    real = sets()
    noise = Records.from_dense(rng.random((300, real.width)) < 0.5, real.domain)
    assert verdict(evaluate(real, noise)).grade == "rough"


def test_tables_are_compared_by_columns_and_learning():
    made = evaluate(table(), table(seed=1), test=table(seed=2))
    assert made.data.kind == "table"
    assert made.relations.pairs.fields == ("age", "city", "rich")
    assert made.relations.pairs.mean_total_variation < 0.15
    assert {row.model for row in made.learning.accuracies} == {
        "logistic regression",
        "random forest",
        "naive Bayes",
    }
    for row in made.learning.accuracies:
        assert row.synthetic > 0.8
        assert row.majority < 0.6
    assert made.learning.held_out


def test_learning_from_noise_is_no_better_than_guessing():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 8, 600), 8 + rng.integers(0, 3, 600), 11 + rng.integers(0, 2, 600)], axis=1)
    noise = Records.from_lists(rows.tolist(), TABLE)
    for row in downstream(table(), noise, table(seed=2)):
        assert row.synthetic < 0.75 < row.real


def test_images_are_compared_by_a_network():
    made = evaluate(pictures(), pictures(seed=1))
    assert made.data.kind == "images"
    assert made.learning.accuracies[0].synthetic > 0.9
    assert made.images.label_images[0].shape == (2, 8, 8)
    assert abs(made.images.label_images[0] - made.images.label_images[1]).mean() < 0.1


def test_image_accuracy_is_reproducible_and_leaves_the_global_state_alone():
    import torch

    before = torch.random.get_rng_state()
    scores = {image_accuracy(pictures(), pictures(seed=1), visits=512, seed=3) for _ in range(2)}
    assert len(scores) == 1
    assert torch.equal(before, torch.random.get_rng_state())


def test_labels_that_cannot_be_learnt_are_listed():
    one_label = Records.from_lists([[0, 8, 11]] * 20, TABLE)
    made = evaluate(table(), one_label)
    reasons = [entry.reason for entry in made.not_computed if entry.metric == "downstream accuracy"]
    assert reasons == ["the label takes only one value in the synthetic data, so nothing can be learnt."]


def test_without_scikit_learn_the_reason_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    made = evaluate(table(), table(seed=1))
    assert any("pip install 'dpgm[learn]'" in entry.reason for entry in made.not_computed)


def test_kinds_of_data_are_distinguished():
    assert kind_of(sets()) == "sets"
    assert kind_of(table()) == "table"
    assert kind_of(pictures()) == "images"


def test_items_are_matched_by_label_not_by_position():
    ours = Domain.of_items(["a", "b", "c"])
    theirs = Records.from_lists([[0, 1], [1]], Domain.of_items(["c", "a"]))
    assert with_domain(theirs, ours) == Records.from_lists([[0, 2], [0]], ours)
    with pytest.raises(UsageError, match="1 items that the real data's domain does not have"):
        with_domain(Records.from_lists([[0]], Domain.of_items(["z"])), ours)


# -- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    real, synthetic = sets(120, 6), sets(90, 6, seed=1)
    real.write(tmp_path / "real.parquet")
    synthetic.write(tmp_path / "synthetic.parquet")
    return tmp_path


def test_command_writes_report_and_json(files, capsys):
    outputs = ["--out", f"{files}/report.html", "--json", f"{files}/report.json"]
    code = run(["evaluate", f"{files}/real.parquet", f"{files}/synthetic.parquet", *outputs, "--mwem", "--quiet"])
    assert code == 0, capsys.readouterr().err
    assert "Curator only" in (files / "report.html").read_text()
    document = json.loads((files / "report.json").read_text())
    assert document["counting"]["baselines"] == ["independent", "MWEM", "answer 0"]
    assert capsys.readouterr().err == ""


def error_of(files, capsys, *arguments):
    """The one line that a refused command prints; it must not write a report."""
    code = run(["evaluate", *arguments, "--out", f"{files}/report.html"])
    error = capsys.readouterr().err.strip()
    assert code == 2
    assert len(error.splitlines()) == 1
    assert not (files / "report.html").exists()
    return error


def test_other_domain_is_one_sentence(files, capsys):
    Records.from_lists([[0, 1]], Domain.of_items(["x", "y"])).write(files / "other.parquet")
    assert "different domains" in error_of(files, capsys, f"{files}/real.parquet", f"{files}/other.parquet")


def test_empty_synthetic_file_is_one_sentence(files, capsys):
    (files / "empty.parquet").write_bytes(b"")
    error = error_of(files, capsys, f"{files}/real.parquet", f"{files}/empty.parquet")
    assert "E-INPUT" in error
    sets(3).rows(0, 0).write(files / "none.parquet")
    assert "no records" in error_of(files, capsys, f"{files}/real.parquet", f"{files}/none.parquet")


def test_synthetic_file_of_another_width_is_one_sentence(files, capsys):
    sets(20, 6).write(files / "real.npz")
    sets(20, 9).write(files / "wide.npz")
    error = error_of(files, capsys, f"{files}/real.npz", f"{files}/wide.npz")
    assert "9" in error
    assert "6" in error


def test_workload_mistakes_are_one_sentence(files, capsys):
    both = [f"{files}/real.parquet", f"{files}/synthetic.parquet"]
    (files / "q.csv").write_text("item 1\nbeer\n")
    assert "line 2: the item 'beer'" in error_of(files, capsys, *both, "--workload", f"{files}/q.csv")
    (files / "q.csv").write_text("\n")
    assert "holds no queries" in error_of(files, capsys, *both, "--workload", f"{files}/q.csv")


def test_without_outputs_the_table_is_printed(files, capsys):
    assert run(["evaluate", f"{files}/real.parquet", f"{files}/synthetic.parquet"]) == 0
    printed = capsys.readouterr()
    assert "independent" in printed.out
    assert "curator only" in printed.err


def test_missing_release_is_one_sentence(files, capsys):
    both = [f"{files}/real.parquet", f"{files}/synthetic.parquet"]
    assert "E-ARTEFACT" in error_of(files, capsys, *both, "--release", f"{files}/nowhere")


def sentences(document):
    return [finding["sentence"] for finding in document["verdict"]["findings"] if finding["off"]]


def test_items_that_the_domain_does_not_list_are_reported(tmp_path, capsys):
    real = sets(300, 12)
    real.write(tmp_path / "real.parquet")
    narrow = Domain.of_items([f"item {at}" for at in range(6)])
    synthetic = Records.from_dense(sets(300, 12, seed=1).to_dense()[:, :6], narrow)
    synthetic.write(tmp_path / "synthetic.parquet")
    save_domain(narrow, tmp_path / "domain.yaml")
    files = [f"{tmp_path}/real.parquet", f"{tmp_path}/synthetic.parquet"]
    assert run(["evaluate", *files, "--domain", f"{tmp_path}/domain.yaml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["data"]["outside"]["items"] == 6
    dense = real.to_dense()
    assert document["data"]["outside"]["share"] == pytest.approx(dense[:, 6:].sum() / dense.sum())
    assert document["verdict"]["grade"] == "rough"
    assert any("not in the domain" in text for text in sentences(document))
