"""dpgm: differentially private mixtures of generative networks.

Names are imported on first use, so that `import dpgm` and `dpgm --help` stay fast and the numerical packages
run with torch and numpy alone.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "FourierFeatures": "dpgm.statistics.fourier_features",
    "PrivateKernelKMeans": "dpgm.clustering.estimator",
    "clustering_accuracy": "dpgm.evaluation.clustering_accuracy",
    "Domain": "dpgm.data.domain",
    "Records": "dpgm.data.records",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpgm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
