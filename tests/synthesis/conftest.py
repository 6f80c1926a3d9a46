"""A saved release that tests may damage."""

import shutil

import pytest

from release_data import some_release


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A release as it was saved."""
    path = tmp_path_factory.mktemp("original") / "release"
    some_release().save(path)
    return path


@pytest.fixture
def folder(original, tmp_path):
    """A copy of the release, for one test."""
    shutil.copytree(original, tmp_path / "release")
    return tmp_path / "release"
