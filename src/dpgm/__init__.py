"""dpgm: differentially private mixtures of generative networks.

Names are imported on first use, so that `import dpgm` and `dpgm --help` stay fast and the numerical packages
run with torch and numpy alone. Type checkers see the imports below; at run time `_HOMES` says where a name lives.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dpgm.baselines.estimators import AnswerZero, IndependentMarginals, Mwem
    from dpgm.clustering.estimator import PrivateKernelKMeans, clustering_accuracy
    from dpgm.data.conversion import as_records
    from dpgm.data.domain import Domain
    from dpgm.data.domain_file import load_domain, save_domain
    from dpgm.data.fields import Boolean, Categorical, Identifier, Ignored, Image, ItemSet
    from dpgm.data.formats import Source
    from dpgm.data.inspect.inspection import inspect_file
    from dpgm.data.number_fields import Date, DateTime, Numeric
    from dpgm.data.read.options import ReadOptions
    from dpgm.data.read.readers import read_records, read_source
    from dpgm.data.records import Records
    from dpgm.data.simulate import simulate_cdr, simulate_transit
    from dpgm.data.write.writers import RecordWriter, write_records
    from dpgm.errors import (
        ArtefactError,
        BudgetError,
        CheckFailed,
        DiskError,
        DpgmError,
        InputError,
        NotFittedError,
        PrivacyWarning,
        ResourceError,
        UsageError,
    )
    from dpgm.evaluation.counting_queries import read_workload
    from dpgm.evaluation.evaluate import evaluate
    from dpgm.evaluation.evaluation import Evaluation
    from dpgm.privacy.accountant import cost
    from dpgm.privacy.certificate import Certificate
    from dpgm.privacy.events import Mechanism
    from dpgm.privacy.ledger import Ledger
    from dpgm.privacy.release_checks import Verification
    from dpgm.report.html import write_report
    from dpgm.statistics.fourier_features import FourierFeatures
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.plan import Plan, make_plan, read_plan
    from dpgm.synthesis.release import Release, load
    from dpgm.synthesis.synthesizer import Synthesizer
    from dpgm.synthesis.verification import verify

_ERRORS = (
    "ArtefactError BudgetError CheckFailed DiskError DpgmError InputError NotFittedError PrivacyWarning "
    "ResourceError UsageError"
)
# Module -> its public names, as here = as there.
_HOMES = {
    "clustering.estimator": "PrivateKernelKMeans clustering_accuracy",
    "data.conversion": "as_records",
    "data.domain": "Domain",
    "data.domain_file": "load_domain save_domain",
    "data.fields": "Boolean Categorical Identifier Ignored Image ItemSet",
    "data.formats": "Source",
    "data.inspect.inspection": "inspect_file",
    "data.number_fields": "Date DateTime Numeric",
    "data.read.options": "ReadOptions",
    "data.read.readers": "read_records read_source",
    "data.records": "Records",
    "data.simulate": "simulate_cdr simulate_transit",
    "data.write.writers": "RecordWriter write_records",
    "errors": _ERRORS,
    "baselines.estimators": "AnswerZero IndependentMarginals Mwem",
    "evaluation.counting_queries": "read_workload",
    "evaluation.evaluate": "evaluate",
    "evaluation.evaluation": "Evaluation",
    "privacy.accountant": "cost",
    "privacy.certificate": "Certificate",
    "privacy.events": "Mechanism",
    "privacy.ledger": "Ledger",
    "privacy.release_checks": "Verification",
    "report.html": "write_report",
    "statistics.fourier_features": "FourierFeatures",
    "strategy.settings": "Config",
    "synthesis.plan": "Plan make_plan read_plan",
    "synthesis.release": "Release load",
    "synthesis.synthesizer": "Synthesizer",
    "synthesis.verification": "verify",
}
_WHERE = {
    name.split("=")[0]: (f"dpgm.{module}", name.split("=")[-1])
    for module, names in _HOMES.items()
    for name in names.split()
}

__all__ = [
    "AnswerZero",
    "ArtefactError",
    "Boolean",
    "BudgetError",
    "Categorical",
    "Certificate",
    "CheckFailed",
    "Config",
    "Date",
    "DateTime",
    "DiskError",
    "Domain",
    "DpgmError",
    "Evaluation",
    "FourierFeatures",
    "Identifier",
    "Ignored",
    "Image",
    "IndependentMarginals",
    "InputError",
    "ItemSet",
    "Ledger",
    "Mechanism",
    "Mwem",
    "NotFittedError",
    "Numeric",
    "Plan",
    "PrivacyWarning",
    "PrivateKernelKMeans",
    "ReadOptions",
    "RecordWriter",
    "Records",
    "Release",
    "ResourceError",
    "Source",
    "Synthesizer",
    "UsageError",
    "Verification",
    "__version__",
    "as_records",
    "clustering_accuracy",
    "cost",
    "evaluate",
    "inspect_file",
    "load",
    "load_domain",
    "make_plan",
    "read_plan",
    "read_records",
    "read_source",
    "read_workload",
    "save_domain",
    "simulate_cdr",
    "simulate_transit",
    "verify",
    "write_records",
    "write_report",
]

if not TYPE_CHECKING:  # a type checker must not take every misspelt name for Any

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"module 'dpgm' has no attribute {name!r}")
        module, there = _WHERE[name]
        return getattr(import_module(module), there)


def __dir__() -> list[str]:
    return __all__
