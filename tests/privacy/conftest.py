import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Tests neither read nor fill the user's cache."""
    monkeypatch.setenv("DPGM_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def vectors():
    return json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))
