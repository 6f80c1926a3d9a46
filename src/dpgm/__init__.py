"""dpgm: differentially private mixtures of generative networks.

Names are imported on first use, so that `import dpgm` and `dpgm --help` stay fast and the numerical packages
run with torch and numpy alone.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Certificate": "dpgm.privacy.certificate",
    "Ledger": "dpgm.privacy.ledger",
    "Release": "dpgm.synthesis.release",
    "Synthesizer": "dpgm.synthesis.synthesizer",
    "load": "dpgm.synthesis.release",
    "AnswerZero": "dpgm.evaluation.baselines",
    "Evaluation": "dpgm.evaluation.evaluation",
    "IndependentMarginals": "dpgm.evaluation.baselines",
    "Mwem": "dpgm.evaluation.baselines",
    "evaluate": "dpgm.evaluation.evaluate",
    "read_workload": "dpgm.evaluation.workload_file",
    "write_report": "dpgm.report.html",
    "FourierFeatures": "dpgm.statistics.fourier_features",
    "PrivateKernelKMeans": "dpgm.clustering.estimator",
    "clustering_accuracy": "dpgm.evaluation.clustering_accuracy",
    "Domain": "dpgm.data.domain",
    "RecordWriter": "dpgm.data.writers",
    "Records": "dpgm.data.records",
    "Source": "dpgm.data.source",
    "as_records": "dpgm.data.conversion",
    "inspect_file": "dpgm.data.inspection",
    "load_domain": "dpgm.data.domain_file",
    "read_records": "dpgm.data.readers",
    "read_source": "dpgm.data.readers",
    "save_domain": "dpgm.data.domain_file",
    "simulate_cdr": "dpgm.data.simulate",
    "simulate_transit": "dpgm.data.simulate",
    "write_records": "dpgm.data.writers",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpgm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
