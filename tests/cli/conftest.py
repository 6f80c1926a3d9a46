"""A small data file and the command that fits it, shared by the tests of the commands."""

import pytest

from dpgm.cli.app import load_commands
from synthesis_data import SETS, some_records

load_commands()


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "visits.parquet"
    some_records(SETS, 80).write(path)
    return path


@pytest.fixture
def fit(data):
    return ["fit", str(data), "--assume-public-items", "--epsilon", "1", "--quiet"]
