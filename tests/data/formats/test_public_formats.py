"""The formats of the public files, in small files made here, so that these tests run everywhere."""

import struct

from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.read.readers import read_records, read_source
from dpgm.data.records import Records


def test_images_with_labels(tmp_path):
    (tmp_path / "images-ubyte").write_bytes(
        struct.pack(">IIII", 0x803, 2, 1, 3) + bytes([0, 128, 255, 127, 0, 200])
    )
    (tmp_path / "labels-ubyte").write_bytes(struct.pack(">II", 0x801, 2) + bytes([9, 0]))
    records = read_records(tmp_path / "images-ubyte", labels=tmp_path / "labels-ubyte")
    assert records == Records.from_lists([[1, 2, 3 + 9], [2, 3]], records.domain)
    assert read_records(tmp_path / "images-ubyte", threshold=200).indices.tolist() == [2]


def test_headerless_zeros_and_ones(tmp_path):
    (tmp_path / "d.data").write_text("0,1,1\n0,0,0\n")
    records, source = read_source(tmp_path / "d.data")
    assert records == Records.from_lists([[1, 2], []], Domain.of_items(3))
    assert (source.shape, source.items_assumed_public) == ("wide", False)


def test_a_headerless_table_with_comments_missing_tokens_and_trailing_dots(tmp_path):
    domain = Domain(
        (Numeric("age", 0, 100, 10), Categorical("work", ("Private",), True), Categorical("pay", ("<=50K", ">50K")))
    )
    (tmp_path / "a.test").write_text("|1x3 Cross validator\n25, Private, <=50K.\n38, ?, >50K.\n\n")
    records = read_records(
        tmp_path / "a.test", domain=domain, header=False, missing=["?"], comment="|", strip_suffix="."
    )
    assert records == Records.from_lists([[2, 10, 12], [3, 11, 13]], domain)


def test_unknown_categories_are_missing_where_the_domain_allows_it(tmp_path):
    domain = Domain((Categorical("a", ("x",), True), Numeric("b", 0, 1, 2, missing=True)))
    (tmp_path / "t.csv").write_text("a,b\nx,0\ny,\n,1\n")
    assert read_records(tmp_path / "t.csv", domain=domain) == Records.from_lists([[0, 2], [1, 4], [1, 3]], domain)


def test_comments_within_baskets_are_left_out(tmp_path):
    (tmp_path / "b.dat").write_text("# two\n1 2\n\n# three\n3\n")
    records = read_records(tmp_path / "b.dat", domain=Domain.of_items(4), comment="#")
    assert records == Records.from_lists([[1, 2], [], [3]], Domain.of_items(4))
