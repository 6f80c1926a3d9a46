"""What a fit says to a newcomer whose data are too few, or hold a column that cannot be published."""

import numpy as np
import pyarrow as pa

from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.evaluation.inputs import inputs_of


def people(folder, count):
    rows = [f"{at % 2},street {at % max(count // 2, 1)}" for at in range(count)]
    (folder / "p.csv").write_text("sex,street\n" + "\n".join(rows) + "\n")
    (folder / "d.yaml").write_text(
        "fields:\n- {name: sex, kind: categorical, values: [0, 1]}\n- {name: street, kind: categorical, discover: true}\n"
    )
    options = ("--domain", str(folder / "d.yaml"), "--epsilon", "1", "--model", "independent")
    return ["fit", str(folder / "p.csv"), *options, "--out", str(folder / "release")]


def test_few_records_and_a_column_of_rare_values_are_reported(tmp_path, capsys):
    assert run(people(tmp_path, 12)) == 0
    printed = capsys.readouterr().err
    assert "note: 12 records at epsilon 1" in printed
    assert (
        "note: no value of 'street' has enough people to be published, so samples have '(other)' for all" in printed
    )


def test_enough_records_give_no_note_of_their_number(tmp_path, capsys):
    assert run(people(tmp_path, 600)) == 0
    printed = capsys.readouterr().err
    assert "records at epsilon" not in printed
    assert "'street'" in printed
    assert "kind: ignored, or kind: identifier" in printed
    assert run([*people(tmp_path, 600), "--force", "--quiet"]) == 0
    assert "note" not in capsys.readouterr().err


def test_codes_that_an_open_domain_calls_categories_are_compared_as_such():
    codes = np.array(["01067", "04103", "10115"])[np.arange(300) % 3]
    table = pa.table({"postcode": codes, "age": np.arange(300) % 50})
    domain = Domain((Categorical("postcode", discover=True), Numeric("age", 0, 99, integer=True)))
    kinds = {column.name: column.kind for column in inputs_of(table, table, domain=domain).raw.columns}
    assert kinds == {"postcode": "category", "age": "number"}


def test_images_that_are_no_matrix_of_0_and_1_get_advice(tmp_path, capsys):
    grey = np.random.default_rng(0).integers(0, 255, (20, 8, 8)).astype(np.uint8)
    np.save(tmp_path / "g.npy", grey)
    np.savez(tmp_path / "g.npz", images=grey)
    assert run(["inspect", str(tmp_path / "g.npy")]) == 2
    assert "kind: image, levels: 8" in capsys.readouterr().err
    assert run(["inspect", str(tmp_path / "g.npz")]) == 2
    assert "kind: image, levels: 8" in capsys.readouterr().err
