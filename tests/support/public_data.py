"""Where the public data sets of the documentation lie: DPGM_DATA, or a folder `shared/data` beside the repository."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("DPGM_DATA") or Path(__file__).parents[3] / "shared" / "data")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where one of these files or folders is not there."""
    missing = [name for name in names or (".",) if not (DATA / name).exists()]
    reason = f"public data are not here ({', '.join(missing)}); set DPGM_DATA to their folder"
    return pytest.mark.skipif(bool(missing), reason=reason)
