"""The formats of the public files, in small files made here, so that these tests run everywhere."""

import struct
import zipfile

from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.read.readers import read_records, read_source
from dpgm.data.records import Records


def test_msweb_lines(tmp_path):
    lines = ['I,4,"www.microsoft.com","created by getlog.pl"', 'T,1,"VRoot",0,0,"VRoot"', 'N,0,"0"']
    lines += ['A,1287,1,"International AutoRoute","/autoroute"', 'A,1001,1,"Support","/support"']
    lines += ['C,"10001",10001', "V,1001,1", "V,1287,1", 'C,"10002",10002', 'C,"10003",10003', "V,9999,1"]
    (tmp_path / "msweb.data").write_text("\n".join(lines) + "\n")
    records, source = read_source(tmp_path / "msweb.data")
    assert records.domain.fields[0].items == (1001, 1287)
    assert records.lengths.tolist() == [2, 0, 0]
    assert not source.items_assumed_public


def test_msnbc_sequences_in_a_zip(tmp_path):
    text = (
        "% Different categories found in input file:\n\nfrontpage news tech\n\n\n% Sequences:\n\n1 1 \n2 \n3 2 2 \n"
    )
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("m.seq", text)
        archive.writestr("__MACOSX/._m.seq", "junk")
    records = read_records(tmp_path / "m.zip")
    assert records == Records.from_lists([[0], [1], [1, 2]], records.domain)
    assert records.domain.fields[0].items == (1, 2, 3)


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
