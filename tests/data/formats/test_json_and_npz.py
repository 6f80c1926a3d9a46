"""JSON objects with more members than are read, and numpy archives of plain arrays."""

import json
import struct

import numpy as np
import pytest
import scipy.sparse

import dpgm
from dpgm.data.domain import Categorical, Domain, Image, Numeric
from dpgm.data.inspection import inspect_file
from dpgm.data.read.frames import read_frame
from dpgm.errors import InputError, UsageError


def objects(path, count=60):
    with open(path, "w") as file:
        for at in range(count):
            row = {"id": at, "age": 20 + at % 50, "tags": ["a", "b"][: at % 3], "home": {"city": "x"}}
            row |= {"mixed": [1] if at % 2 else 1}
            row |= {"late": "z"} if at > count - 3 else {}
            file.write(json.dumps(row) + "\n")
    return path


def test_inspect_says_which_members_it_does_not_read(tmp_path):
    path = tmp_path / "o.jsonl"
    path.write_text("".join(json.dumps({"id": at, "tags": ["a"], "x": 1}) + "\n" for at in range(5)))
    seen = inspect_file(path)
    assert seen.unread == ("id", "x")
    assert any(line.startswith("not read   id, x") and "--shape wide" in line for line in seen.lines())


def test_a_table_of_objects_leaves_out_members_that_cannot_be_modelled(tmp_path):
    """Formerly refused at the first nested object."""
    path = objects(tmp_path / "o.jsonl")
    seen = inspect_file(path, shape="wide", draft_domain=tmp_path / "d.yaml")
    assert {name for name, _ in seen.left_out} == {"id", "home", "mixed"}
    assert [field.name for field in seen.domain.fields] == ["age", "tags", "late"]
    assert len(dpgm.read_records(path, domain=tmp_path / "d.yaml", shape="wide")) == 60


def test_an_archive_of_one_array_is_read_as_the_array_is(tmp_path):
    """Formerly refused because it is no sparse matrix."""
    matrix = np.random.default_rng(0).random((40, 6)) < 0.4
    np.savez(tmp_path / "a.npz", whatever=matrix)
    np.save(tmp_path / "a.npy", matrix)
    one, other = (dpgm.read_records(tmp_path / name) for name in ("a.npz", "a.npy"))
    assert np.array_equal(one.indices, other.indices)
    assert one.domain == other.domain


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((3, 3)), "labels": np.zeros(3)}, "holds 2 arrays (x, labels)"),
        ({"x": np.zeros(3)}, "2 dimensions"),
        ({"x": np.full((3, 3), 0.5)}, "neither 0 nor 1"),
        ({"x": np.array([["a", "b"]])}, "does not hold numbers"),
    ],
)
def test_other_archives_are_refused_in_a_sentence(tmp_path, arrays, words):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
        dpgm.read_records(tmp_path / "a.npz")


def test_a_list_beside_texts_to_be_cut_is_refused_and_changes_no_other_row(tmp_path):
    """Because of one list, the texts of up to 32,768 other rows were not split into items."""
    domain = dpgm.Domain.of_items(["a", "b", "c"])
    rows = ['{"p": 1, "i": "a;b"}', '{"p": 2, "i": "a"}']
    options = {"domain": domain, "person": "p", "item": "i", "shape": "long", "item_separator": ";"}
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(rows) + "\n")
    assert dpgm.read_records(file, **options).to_dense().tolist() == [[1, 1, 0], [1, 0, 0]]
    file.write_text("\n".join([*rows, '{"p": 3, "i": ["c"]}']) + "\n")
    with pytest.raises(InputError, match="item_separator"):
        dpgm.read_records(file, **options)


def test_a_float32_is_the_same_number_whatever_stands_beside_it():
    """A float32 0.7 is 0.69999999; among texts it was converted to the text 0.7, which is in the next bin."""
    pandas = pytest.importorskip("pandas")
    domain = dpgm.Domain((Numeric("n", 0, 1, bins=10),))
    rows = [{"n": np.float32(0.7)}]
    alone = read_frame(pandas.DataFrame(rows), domain).records
    among_texts = read_frame(pandas.DataFrame([*rows, {"n": "0.5"}]), domain).records
    assert among_texts.rows(0, 1).indices.tolist() == alone.indices.tolist()


@pytest.mark.parametrize("ending", ["npy", "npz", "idx"])
def test_a_row_with_two_values_of_a_column_is_refused(tmp_path, ending):
    """Sensitivities assume one value per table column, in array files as in matrices in memory."""
    path, rows = tmp_path / f"x.{ending}", np.array([[1, 0, 0, 1], [1, 1, 0, 0]], dtype=np.uint8)
    if ending == "npy":
        np.save(path, rows)
    elif ending == "npz":
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(rows))
    else:
        path.write_bytes(struct.pack(">IIII", 0x803, 2, 2, 2) + (rows * 255).tobytes())
    fields = (Categorical("a", ("x", "y")), Categorical("b", ("x", "y")))
    domain = Domain(fields) if ending != "idx" else Domain((Categorical("a", ("w", "x", "y", "z")),))
    fault = r"row .*exactly one of them must be 1" if ending != "idx" else "must list an image of 2 x 2"
    with pytest.raises(InputError, match=fault):
        dpgm.read_records(path, domain=domain)


@pytest.mark.parametrize("dtype", ["object", "category"])
def test_a_number_beyond_64_bits_changes_how_no_other_row_is_read(dtype):
    import pandas

    frame = pandas.DataFrame({"n": pandas.Series([1, 2, 10**30], dtype=object).astype(dtype)})
    numbers = read_frame(frame, Domain((Numeric("n", 0, 10, 5),))).records
    assert numbers.indices.tolist() == [0, 1, 4]  # clipped to the range
    with pytest.raises(InputError, match="row 3, column 'n': the value is not one of those"):
        read_frame(frame, Domain((Categorical("n", ("1", "2")),)))


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_one_column_cannot_hold_both_persons_and_items(package):
    import pandas
    import pyarrow as pa

    table = pa.table({"a": ["x", "y"]})
    with pytest.raises(UsageError, match="columns of a layout must differ"):
        read_frame(
            table if package == "pyarrow" else pandas.DataFrame({"a": ["x"]}),
            None,
            person="a",
            item="a",
            discover=True,
        )


def idx(path, array):
    header = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())
    return path


def test_labels_beside_images_that_just_fit_sixteen_bits(tmp_path):
    """Positions of labels beyond 32,767 overflowed to negative numbers."""
    images = np.zeros((2, 181, 181))
    images[:, 5, 5] = 255
    labels = idx(tmp_path / "labels.idx", np.array([7, 9]))
    records = dpgm.read_records(idx(tmp_path / "images.idx", images), labels=labels)
    assert records.indices.tolist() == [910, 32768, 910, 32770]


def test_images_and_labels_stand_where_the_domain_has_them(tmp_path):
    """Images were read with any domain of equal width: with the label first, or with other heights and widths."""
    images = np.zeros((2, 5, 2))
    images[:, 0, 1] = 255
    path, labels = idx(tmp_path / "images.idx", images), idx(tmp_path / "labels.idx", np.array([7, 9]))
    label = Categorical("label", tuple(range(10)))
    good = Domain((Image("scan", 5, 2), label), label="label")
    assert dpgm.read_records(path, labels=labels, domain=good).indices.tolist() == [1, 17, 1, 19]
    first = Domain((label, Image("scan", 5, 2)), label="label")
    assert dpgm.read_records(path, labels=labels, domain=first).indices.tolist() == [7, 11, 9, 11]
    with pytest.raises(InputError, match="must list an image of 5 x 2 and a label"):
        dpgm.read_records(path, labels=labels, domain=Domain((Image("scan", 5, 2),)))
    np.save(tmp_path / "images.npy", images > 0)
    for file in (path, tmp_path / "images.npy"):
        with pytest.raises(InputError, match=r"images? of 5 x 2"):
            dpgm.read_records(file, domain=Domain((Image("scan", 2, 5),)))
