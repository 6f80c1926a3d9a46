"""Where the public data sets lie: the folder DPGM_DATA, or `shared/data` beside the repository."""

import os
from pathlib import Path

DATA = Path(os.environ.get("DPGM_DATA") or Path(__file__).parents[2] / "shared/data")
