"""The public files of the documentation read as they are (skipped where the folder is missing)."""

from pathlib import Path

import pytest

from dpgm.data.read.readers import read_source
from public_data import DATA, needs

DOMAINS = Path(__file__).parents[3] / "examples" / "domains"
pytestmark = needs()
LONG = {"person": "0", "item": "1", "count": "2", "header": False, "assume_public_items": True}

CASES = {
    # folder/file: options, records, positions, mean, longest, unit
    "mnist/t10k-images-idx3-ubyte.gz": ({}, 10_000, 784, 105.24, 258, "row"),
    "retail/retail.csv.gz": ({"assume_public_items": True, "shape": "basket"}, 88_162, 16_470, 10.31, 76, "row"),
    "repeat-consumption/tw_ny/train.csv.gz": (LONG, 29_711, 11_183, 8.47, 364, "person"),
    "debd/nltcs/nltcs.train.data.gz": ({}, 16_181, 16, 5.31, 16, "row"),
    "debd/plants/plants.train.data.gz": ({}, 17_412, 69, 12.41, 68, "row"),
    "adult/adult.data.gz": (
        {"domain": DOMAINS / "adult.yaml", "header": False, "missing": ["?"]},
        32_561,
        230,
        0,  # numeric fields are open, so there are no positions yet
        0,
        "row",
    ),
    "adult/adult.test.gz": (
        {"domain": DOMAINS / "adult.yaml", "header": False, "missing": ["?"], "comment": "|", "strip_suffix": "."},
        16_281,
        230,
        0,
        0,
        "row",
    ),
    "bank-marketing/data-society-bank-marketing-data.zip": (
        {"domain": DOMAINS / "bank.yaml", "member": "bank-full.csv"},
        45_211,
        193,
        0,
        0,
        "row",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_public_file_reads_as_it_is(name):
    options, count, width, mean, longest, unit = CASES[name]
    if not (DATA / name).exists():
        pytest.skip("the file is not here")
    records, source = read_source(DATA / name, **options)
    assert (len(records), records.width) == (count, width)
    assert records.lengths.mean() == pytest.approx(mean, abs=0.006)
    assert records.lengths.max() == longest
    assert source.unit == unit


def test_three_files_of_tweets_are_the_union_of_a_persons_places():
    files = [DATA / "repeat-consumption" / "tw_ny" / f"{part}.csv.gz" for part in ("train", "validation", "test")]
    records, _ = read_source(files, **LONG)
    assert (len(records), records.width) == (30_320, 11_260)
    assert records.lengths.max() == 769


def test_labels_of_digits_become_a_label_field():
    records, _ = read_source(
        DATA / "mnist" / "t10k-images-idx3-ubyte.gz", labels=DATA / "mnist" / "t10k-labels-idx1-ubyte.gz"
    )
    assert records.domain.label == "label"
    assert records.width == 794
    # The first test digits are 7, 2, 1, 0, 4.
    assert (records.indices[records.indptr[1:6] - 1] - 784).tolist() == [7, 2, 1, 0, 4]
