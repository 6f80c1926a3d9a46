"""Faulty files: the message is one sentence that names the file and no value; exit code 2; nothing is written."""

import gzip
import os
import struct
import subprocess
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.domain_file import save_domain
from dpgm.data.read.readers import read_records, read_source
from dpgm.errors import DpgmError, InputError, ResourceError, UsageError
from reading_data import write_file, write_parquet

SECRET = "s3cretvalue"
ITEMS = Domain((ItemSet("items", (1, 2, 3)),))
NAMES = Domain((ItemSet("items", ("a", "b")),))
TABLE = Domain((Categorical("colour", ("red", "blue")), Numeric("size", 0, 10, 5)))
WHOLES = Domain((Numeric("size", 0, 10, 5, integer=True), Categorical("colour", ("red", "blue"))))


TEXTS = {
    # name: (file name, content, options, words that the message must contain)
    "empty": ("x.csv", b"", {"domain": TABLE}, ["empty"]),
    "only a header": ("x.csv", "colour,size\n", {"domain": TABLE}, ["no records"]),
    "unknown ending": ("x.doc", "a", {"domain": NAMES}, ["ending", "`format`"]),
    "utf-16": ("x.csv", "colour,size\nred,1\n".encode("utf-16"), {"domain": TABLE}, ["line 1", "UTF-8"]),
    "latin-1": (
        "x.csv",
        f"colour,size\nred,1\nr\xe9d{SECRET},1\n".encode("latin-1"),
        {"domain": TABLE},
        ["line 3", "UTF-8"],
    ),
    "lone surrogate": ("x.csv", b"colour,size\n\xed\xa0\x80,1\n", {"domain": TABLE}, ["line 2", "UTF-8"]),
    "nul byte": ("x.csv", f"colour,size\nred,1\nred\0{SECRET},1\n", {"domain": TABLE}, ["line 3", "NUL"]),
    "quote never closed": (
        "x.csv",
        f'colour,size\nred,1\n"{SECRET},2\nred,3\n',
        {"domain": TABLE},
        ["line 3", "quote"],
    ),
    "stray quotes": (
        "x.csv",
        f'colour,size\nred,1\nred"{SECRET},2\nred,3"\n',
        {"domain": TABLE},
        ["line 2 or after", "quot"],
    ),
    "ragged, too few": (
        "x.csv",
        f"colour,size\nred,1\n{SECRET}\nred,2\n",
        {"domain": TABLE},
        ["line 3", "1 cell", "2"],
    ),
    "ragged, too many": (
        "x.csv",
        f"colour,size\nred,1\n\nred,1,{SECRET}\n",
        {"domain": TABLE},
        ["line 4", "3 cells"],
    ),
    "column not there": ("x.csv", "colour,weight\nred,1\n", {"domain": TABLE}, ["'size'", "`header=False`"]),
    "person column not there": (
        "x.csv",
        "p,i\n1,1\n",
        {"domain": ITEMS, "person": "who", "item": "i"},
        ["'who'", "`header=False`"],
    ),
    "column twice": (
        "x.csv",
        "p,p,i\n1,1,1\n",
        {"domain": ITEMS, "person": "p", "item": "i"},
        ["columns 1 and 2", "same name"],
    ),
    "both shapes possible": ("x.csv", "1,2,3\n4,5,6\n", {"domain": ITEMS}, ["shape", "`person`"]),
    "both shapes, no domain": ("x.csv", "1,2,3\n4,5,6\n", {"assume_public_items": True}, ["shape", "`person`"]),
    "not an integer": ("x.dat", f"1 2\n3 {SECRET}\n", {"domain": ITEMS}, ["line 2", "whole number"]),
    "not an integer in csv": (
        "x.csv",
        f"1,2\n3\n1,{SECRET}\n",
        {"domain": ITEMS, "shape": "basket"},
        ["line 3", "whole number"],
    ),
    "negative item": ("x.dat", "1 2\n3 -1\n", {"domain": ITEMS}, ["line 2", "negative"]),
    "negative item, no domain": ("x.dat", "1 2\n\n-3\n", {"assume_public_items": True}, ["line 3", "negative"]),
    "negative item, long": (
        "x.csv",
        "p,i\n1,1\n2,-2\n",
        {"domain": ITEMS, "person": "p", "item": "i"},
        ["line 3", "negative"],
    ),
    "overflowing item": ("x.dat", "1\n99999999999999999999999\n", {"domain": ITEMS}, ["line 2", "64 bits"]),
    "overflow by one": ("x.dat", "1\n9223372036854775808\n", {"domain": ITEMS}, ["64 bits"]),
    "nan": ("x.csv", "colour,size\nred,1\nred,NaN\n", {"domain": TABLE}, ["line 3", "'size'", "finite"]),
    "inf": ("x.csv", "colour,size\nred,inf\n", {"domain": TABLE}, ["line 2", "finite"]),
    "1e400": ("x.csv", "colour,size\nred,1e400\n", {"domain": TABLE}, ["line 2", "finite"]),
    "1_000": ("x.csv", "colour,size\nred,1_000\n", {"domain": TABLE}, ["line 2", "number"]),
    "arabic digits": ("x.csv", "colour,size\nred,\u0663\n", {"domain": TABLE}, ["line 2", "number"]),
    "decimal comma": ("x.csv", "colour;size\nred;1,5\n", {"domain": TABLE}, ["line 2", "number"]),
    "hexadecimal": ("x.csv", "p,i\n1,0x1\n", {"domain": ITEMS, "person": "p", "item": "i"}, ["line 2", "whole"]),
    "a fraction in an integer field": ("x.csv", "size,colour\n1.5,red\n", {"domain": WHOLES}, ["line 2", "whole"]),
    "unknown category": (
        "x.csv",
        f"colour,size\nred,1\n{SECRET},1\n",
        {"domain": TABLE},
        ["line 3", "'colour'", "domain"],
    ),
    "missing value": ("x.csv", "colour,size\nred,\n", {"domain": TABLE}, ["line 2", "missing: true"]),
    "missing token": ("x.csv", "colour,size\n?,1\n", {"domain": TABLE, "missing": ["?"]}, ["line 2", "missing"]),
    "missing person": (
        "x.csv",
        "p,i\n1,1\n,2\n",
        {"domain": ITEMS, "person": "p", "item": "i"},
        ["line 3", "person"],
    ),
    "duplicate persons": (
        "x.csv",
        f"p,colour,size\n{SECRET},red,1\n2,red,1\n{SECRET},red,2\n",
        {"domain": TABLE, "person": "p"},
        ["record 3", "merge"],
    ),
    "headerless, wrong count": ("x.csv", "red,1,2\n", {"domain": TABLE, "header": False}, ["3 cells", "2 fields"]),
    "not 0 or 1": ("x.csv", "a,b\n0,1\n1,7\n", {"domain": NAMES, "shape": "wide"}, ["line 3", "'b'", "0 nor 1"]),
    "not 0 or 1, perhaps no header": ("x.csv", f"{SECRET},b\n0,1\n7,1\n", {}, ["shape"]),
    "no header where names are looked for": (
        "x.csv",
        f"{SECRET},b\n1,2\n",
        {"domain": ITEMS, "person": "p", "item": "i"},
        ["'p'"],
    ),
    "an item without column": ("x.csv", "a,c\n0,1\n", {"domain": NAMES, "shape": "wide"}, ["'b'", "no column"]),
    "bad json": ("x.jsonl", f'{{"items": [1]}}\n{{"items": [{SECRET}\n', {"domain": ITEMS}, ["line 2", "JSON"]),
    "json nan": ("x.jsonl", '{"colour": "red", "size": NaN}\n', {"domain": TABLE}, ["line 1", "JSON"]),
    "json scalar": ("x.jsonl", "[1]\n5\n", {"domain": ITEMS}, ["line 2", "object"]),
    "json of mixed kinds": ("x.jsonl", '{"items": [1, "a"]}\n', {"domain": ITEMS}, ["line 1", "'items'"]),
    "json overflow": ("x.jsonl", '{"items": [99999999999999999999999]}\n', {"domain": ITEMS}, ["64 bits"]),
    "json nested": ("x.jsonl", "[" * 100_000 + "\n", {"domain": ITEMS}, ["line 1", "JSON"]),
    "empty item": ("x.csv", "a,,b\n", {"domain": NAMES, "shape": "basket"}, ["line 1", "empty"]),
    "items not public": ("x.dat", "1 2\n", {}, ["`domain`", "`assume_public_items=True`"]),
    "table without domain": ("x.csv", "a,b\n1,x\n", {"shape": "wide"}, ["`domain`"]),
    "table domain for baskets": ("x.dat", "1 2\n", {"domain": TABLE}, ["2 fields", "one item set"]),
    "truncated gzip": (
        "x.csv.gz",
        gzip.compress(b"colour,size\nred,1\n" * 50)[:-9],
        {"domain": TABLE},
        ["cut short"],
    ),
    "not a gzip": ("x.csv.gz", b"colour,size\nred,1\n", {"domain": TABLE}, ["damaged"]),
    "truncated zip": ("x.zip", b"PK\x03\x04" + b"\0" * 30, {"domain": TABLE}, ["damaged"]),
    "not parquet": ("x.parquet", b"PAR1" + b"\0" * 60, {"domain": ITEMS}, ["Parquet"]),
    "not npy": ("x.npy", b"\x93NUMPY\x01\x00", {}, ["numpy"]),
    "not npz": ("x.npz", b"PK", {}, ["damaged"]),
    "not idx": ("x.idx", b"\0\0\x08\x01\0\0\0\x01\0", {}, ["idx"]),
    "idx cut short": ("x.idx", struct.pack(">IIII", 0x803, 2, 2, 2) + b"\0" * 7, {}, ["header"]),
    "idx claims too much": ("x.idx", struct.pack(">IIII", 0x803, 2**31, 2**15, 2**15), {}, ["GB"]),
    "million columns": ("x.csv", "a," * 1_000_000 + "a\n", {"domain": TABLE}, ["line 1", "columns"]),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_bad_file_is_refused_in_one_sentence_that_names_the_place(case, tmp_path):
    name, content, options, words = TEXTS[case]
    path = write_file(tmp_path / name, content)
    with pytest.raises(DpgmError) as caught:
        read_records(path, **options)
    message = str(caught.value)
    assert isinstance(caught.value, (InputError, UsageError, ResourceError))
    assert name in message
    assert message.endswith(".")
    assert "\n" not in message
    assert SECRET not in message
    for word in words:
        assert word in message, message
    assert os.listdir(tmp_path) == [name]


def test_a_missing_file_a_folder_a_pipe_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path, word in [
        (tmp_path / "no.csv", "no such file"),
        (tmp_path, "folder"),
        (tmp_path / "pipe.csv", "pipe"),
        ("/dev/zero", "device"),
    ]:
        with pytest.raises(InputError, match=word):
            read_records(path, domain=ITEMS)


def test_bad_parquet_is_refused(tmp_path):
    import pyarrow as pa

    good = write_parquet(tmp_path / "good.parquet", items=[[1], [2]]).read_bytes()
    for cut in (8, len(good) // 2, len(good) - 1):
        path = write_file(tmp_path / "cut.parquet", good[:cut])
        with pytest.raises(InputError, match="Parquet"):
            read_records(path, domain=ITEMS)
    for column, word in [
        (pa.array([[1, -1]]), "negative"),
        (pa.array([[1.5]]), "whole number"),
        (pa.array([[float("nan")]]), "finite"),
        (pa.array([[2**63]], type=pa.list_(pa.uint64())), "64 bits"),
        (pa.array([[[1]]]), "nested"),
        (pa.array([[True]]), "nested"),
        (pa.array([["x"]]), "whole number"),
    ]:
        path = write_parquet(tmp_path / "bad.parquet", items=column)
        with pytest.raises(InputError, match=word):
            read_records(path, domain=ITEMS)
    path = write_parquet(tmp_path / "struct.parquet", items=pa.array([{"a": 1}]))
    with pytest.raises(InputError, match="nested"):
        read_records(path, domain=ITEMS)
    path = write_parquet(tmp_path / "many.parquet", a=[[1]], b=[[2]])
    with pytest.raises(UsageError, match=r"shape|`item`"):
        read_records(path, domain=ITEMS)
    path = write_parquet(tmp_path / "none.parquet", items=pa.array([], type=pa.list_(pa.int64())))
    with pytest.raises(InputError, match="no records"):
        read_records(path, domain=ITEMS)


def test_damaged_parquet_data_is_refused_and_never_crashes(tmp_path):
    good = write_parquet(tmp_path / "good.parquet", items=[[1, 2], [3]] * 200).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        bad = bytearray(good)
        for at in rng.integers(4, len(good) - 8, 3):
            bad[at] ^= int(rng.integers(1, 256))
        path = write_file(tmp_path / "bad.parquet", bytes(bad))
        with suppress(DpgmError):  # anything else, or a crash, fails
            read_records(path, domain=ITEMS)


def test_zip_archives_are_read_only_where_one_member_is_meant(tmp_path):
    def archive(name, members):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            for member, content in members.items():
                file.writestr(member, content)
        return tmp_path / name

    two = archive("two.zip", {"a.dat": "1 2\n", "b.dat": "3\n", "__MACOSX/x": "junk"})
    with pytest.raises(InputError, match=r"2 files \('a.dat', 'b.dat'\).*`member`"):
        read_records(two, domain=ITEMS)
    assert len(read_records(two, domain=ITEMS, member="b.dat")) == 1
    assert len(read_records(f"{two}::a.dat", domain=ITEMS)) == 1
    with pytest.raises(InputError, match="no single member"):
        read_records(two, domain=ITEMS, member="c.dat")
    with pytest.raises(InputError, match="outside"):
        read_records(archive("up.zip", {"../a.dat": "1\n"}), domain=ITEMS)
    with pytest.raises(InputError, match="outside"):
        read_records(archive("root.zip", {"/a.dat": "1\n"}), domain=ITEMS)
    whole = archive("cut.zip", {"a.dat": "1 2\n" * 1000}).read_bytes()
    with pytest.raises(InputError, match="damaged"):
        read_records(write_file(tmp_path / "cut.zip", whole[:-40]), domain=ITEMS)


def test_endless_lines_are_refused_within_little_memory(tmp_path):
    with open(tmp_path / "line.csv", "wb") as file:
        for _ in range(60):
            file.write(b"a" * (1 << 20))
    with open(tmp_path / "quote.csv", "wb") as file:
        file.write(b'colour,size\nred,1\n"')
        for _ in range(60):
            file.write(b"red,1\n" * 170_000)
    program = (
        "import re, sys; from dpgm.data.read.readers import read_records; from dpgm.errors import InputError\n"
        "from dpgm.data.domain import *\n"
        "try: read_records(sys.argv[1], domain=Domain((Categorical('colour', ('red',)), Numeric('size', 0, 1, 1))))\n"
        "except InputError as error: print(error)\n"
        # not ru_maxrss, which a child inherits from the process that started it
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024)"
    )
    for name, line in (("line.csv", "line 1"), ("quote.csv", "line 3")):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        message, peak = done.stdout.splitlines()
        assert line in message
        assert "longer than" in message
        assert int(peak) < 400


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.opening.RATIO_FROM", 1 << 20)
    path = write_file(tmp_path / "bomb.dat.gz", gzip.compress(b"1\n" * 4_000_000))
    with pytest.raises(InputError, match="times its size"):
        read_records(path, domain=ITEMS)


def test_a_parquet_bomb_is_refused_from_its_footer(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.parquet._MAX_UNPACKED", 10)
    path = write_parquet(tmp_path / "bomb.parquet", items=[[1, 2]] * 100)
    with pytest.raises(ResourceError, match="unpack"):
        read_records(path, domain=ITEMS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mark.csv", b"\xef\xbb\xbfcolour,size\nred,1\nblue,2\n"),
        ("windows.csv", b"colour,size\r\nred,1\r\nblue,2\r\n"),
        ("mac.csv", b"colour,size\rred,1\rblue,2\r"),
        ("mixed.csv", b"colour,size\nred,1\r\nblue,2\r"),
        ("no_end.csv", b"colour,size\nred,1\nblue,2"),
        ("blank.csv", b"colour,size\n\nred,1\n\n\nblue,2\n\n"),
        ("spaces.csv", b"colour, size\nred , 1\n blue,2 \n"),
        ("quotes.csv", b'"colour","size"\r\n"red","1"\r\n"blue","2"\r\n'),
        ("zero.csv", b"colour,size\nred,1\nblue,2.0\n"),
        ("semi.csv", b"colour;size;extra\nred;1;x\nblue;2;y\n"),
        ("order.csv", b"size,colour\n1,red\n2,blue\n"),
    ],
)
def test_harmless_oddities_are_accepted(tmp_path, name, content):
    records = read_records(write_file(tmp_path / name, content), domain=TABLE)
    assert records.indices.tolist() == [0, 2, 1, 3]


def test_values_outside_the_bounds_are_clamped_and_minus_zero_is_zero(tmp_path):
    path = write_file(tmp_path / "x.csv", "colour,size\nred,-5\nred,99\nred,-0\n")
    assert read_records(path, domain=TABLE).indices.tolist() == [0, 2, 0, 6, 0, 2]


def test_a_million_repeats_of_an_item_are_one_item(tmp_path):
    path = write_file(tmp_path / "x.dat", "1 " * 1_000_000 + "\n")
    assert read_records(path, domain=ITEMS).indices.tolist() == [0]


def test_full_empty_equal_and_single_rows_are_read(tmp_path):
    for content, lengths in [("1 2 3\n", [3]), ("\n\n\n", [0, 0, 0]), ("1\n1\n1\n", [1, 1, 1])]:
        assert read_records(write_file(tmp_path / "x.dat", content), domain=ITEMS).lengths.tolist() == lengths


def test_matrices_with_other_values_need_a_threshold(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[0.2, 0.9], [0.0, 0.4]]))
    with pytest.raises(InputError, match=r"row 1.*`threshold`"):
        read_records(tmp_path / "x.npy")
    assert read_records(tmp_path / "x.npy", threshold=0.3).indices.tolist() == [1, 1]
    np.save(tmp_path / "bad.npy", np.array([[0.0, 1.0], [np.nan, 1.0]]))
    with pytest.raises(InputError, match=r"row 2.*NaN"):
        read_records(tmp_path / "bad.npy", threshold=0.3)
    np.save(tmp_path / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="numpy"):
        read_records(tmp_path / "object.npy")
    np.save(tmp_path / "wide.npy", np.zeros((2, 5), dtype=bool))
    with pytest.raises(InputError, match="5 columns"):
        read_records(tmp_path / "wide.npy", domain=ITEMS)


def test_the_unit_is_the_person_where_a_person_column_is_checked(tmp_path):
    path = write_file(tmp_path / "x.csv", "p,colour,size\n1,red,1\n2,red,1\n")
    assert read_source(path, domain=TABLE, person="p")[1].unit == "person"
    assert read_source(path, domain=TABLE)[1].unit == "row"


def run_cli(*arguments):
    import dpgm.cli.data  # noqa: F401

    return run([str(argument) for argument in arguments])


def test_the_command_line_says_one_line_exits_2_and_writes_nothing(tmp_path, capsys):
    path = write_file(tmp_path / "x.csv", f"colour,size\nred,1\n{SECRET}\n")
    save_domain(TABLE, tmp_path / "d.yaml")
    before = sorted(os.listdir(tmp_path))
    assert run_cli("inspect", path, "--domain", tmp_path / "d.yaml", "--draft-domain", tmp_path / "o.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dpgm: error[E-INPUT]: ")
    assert err.count("\n") == 1
    assert SECRET not in err
    assert sorted(os.listdir(tmp_path)) == before


def test_outputs_that_cannot_be_written_are_refused(tmp_path, capsys):
    assert run_cli("simulate", "transit", "--records", "10", "--out", tmp_path / "no" / "x.csv") == 2
    assert "E-DISK" in capsys.readouterr().err
    assert run_cli("simulate", "transit", "--records", "10", "--out", tmp_path / "x.doc") == 2
    assert "E-USAGE" in capsys.readouterr().err
    (tmp_path / "old.csv").write_text("old")
    assert run_cli("simulate", "transit", "--records", "10", "--out", tmp_path / "old.csv") == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "old.csv").read_text() == "old"
    assert run_cli("simulate", "transit", "--records", "10", "--out", tmp_path / "old.csv", "--force") == 0
    (tmp_path / "old.csv").unlink()
    assert run_cli("simulate", "transit", "--records", "0", "--out", tmp_path / "x.csv") == 2
    assert "records" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_no_file(tmp_path, capsys, monkeypatch):
    import errno

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("x.csv", "x.parquet", "x.npz", "x.dat.gz"):
        assert run_cli("simulate", "transit", "--records", "10", "--out", tmp_path / name) == 2
        assert "E-DISK" in (error := capsys.readouterr().err)
        assert "disk is full" in error
    assert os.listdir(tmp_path) == []


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path):
    from dpgm.data.formats.opening import locate, open_bytes

    path = write_file(tmp_path / "x.dat", "1 2\n")

    def read_while_it_grows():
        with open_bytes(locate(path)) as stream:
            stream.read()
            with path.open("a") as file:
                file.write("3\n")

    with pytest.raises(InputError, match="changed while"):
        read_while_it_grows()


def test_a_footer_that_claims_too_many_rows_is_refused(tmp_path):
    from types import SimpleNamespace

    from dpgm.data.formats.opening import locate
    from dpgm.data.formats.parquet import _check_footer

    source = locate(write_file(tmp_path / "x.parquet", "x"))
    group = SimpleNamespace(total_byte_size=10, num_rows=2**60)
    claimed = SimpleNamespace(num_rows=2**60, num_row_groups=1, row_group=lambda at: group)
    with pytest.raises(InputError, match="impossible number of rows"):
        _check_footer(claimed, source)


def test_damaged_files_of_every_format_are_refused_and_never_crash(tmp_path, monkeypatch):
    from data_strategies import random_records
    from dpgm.data.writers import write_records

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    rng = np.random.default_rng(5)
    records = random_records(8, 5, 2)
    marks = [b'"', b",", b"\n", b"\r", b"\0", b"9" * 25, b"NaN", b"\xff", b"[", b"{", b"'=", b"1e999"]
    for name in ("x.csv", "x.jsonl", "x.dat", "x.npz", "x.npy", "x.parquet", "x.csv.gz"):
        write_records(records, tmp_path / name)
        good = (tmp_path / name).read_bytes()
        for _ in range(40):
            bad = bytearray(good)
            at = int(rng.integers(len(bad)))
            if rng.random() < 0.5:
                bad[at : at + int(rng.integers(3))] = marks[rng.integers(len(marks))]
            else:
                bad[at] = int(rng.integers(256))
            (tmp_path / name).write_bytes(bytes(bad))
            with suppress(DpgmError):  # anything else, or a crash, fails
                read_records(tmp_path / name, domain=records.domain)
            with suppress(DpgmError):
                read_records(tmp_path / name, assume_public_items=True, shape="basket" if "json" in name else None)


def test_a_text_of_a_parquet_file_that_is_no_text_is_refused(tmp_path):
    import pyarrow as pa

    good = pa.array(["milk", "bread"])
    _, offsets, characters = good.buffers()
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe" + characters.to_pybytes()[2:])]
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), bad)
    path = write_parquet(tmp_path / "x.parquet", items=lists)
    domain = Domain((ItemSet("items", ("milk", "bread")),))
    with pytest.raises(InputError, match="damaged"):
        read_records(path, domain=domain)


FLIPPED = """
import sys
from pathlib import Path
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.read.readers import read_records
from dpgm.errors import DpgmError
path = Path(sys.argv[1])
data, refused = path.read_bytes(), 0
for at in range(len(data) - 200, len(data) - 180):
    for bit in (0, 1, 4):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        try:
            read_records(path, domain=Domain((ItemSet("items", ("milk", "bread")),)))
        except DpgmError:
            refused += 1
print(refused)
"""


def test_a_footer_that_would_end_the_process_is_refused(tmp_path):
    """On contradictory sizes in the footer, Arrow throws a C++ exception that Python cannot catch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = pa.array([["milk"], ["bread", "milk"]])
    settings = {"store_schema": False, "compression": "none", "write_statistics": False}
    pq.write_table(pa.table({"items": lists}), tmp_path / "x.parquet", **settings)
    command = [sys.executable, "-c", FLIPPED, str(tmp_path / "x.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    assert "terminate" not in done.stderr
