"""dpgm: differentially private mixtures of generative networks.

Public names are imported on first use, so that `import dpgm` and `dpgm --help` stay fast and the numerical packages run
with torch and numpy alone. The list of names is the stub file `__init__.pyi`, which type checkers read as well.
"""

import re
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_HOMES = {name: home for home, name in re.findall(r"^from (dpgm\.\S+) import (\w+) as", _STUB, re.MULTILINE)}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpgm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
