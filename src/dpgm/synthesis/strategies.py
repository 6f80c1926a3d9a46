"""The list of generator families. A new family is a folder of its own and a line here."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dpgm import validation
from dpgm.baselines.independent import INDEPENDENT_STRATEGY
from dpgm.baselines.mwem import MWEM
from dpgm.data.domain import Domain
from dpgm.errors import ArtefactError, UsageError
from dpgm.images.strategy import IMAGES
from dpgm.mechanisms.gateway import Gateway
from dpgm.networks.strategy import RBMS, VAES
from dpgm.products.strategy import PRODUCTS
from dpgm.sequences.strategy import SEQUENCES
from dpgm.strategy.protocol import FitPlan, Generator, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings
from dpgm.trees.strategy import TREE_STRATEGY

STRATEGIES: tuple[Strategy, ...] = (
    IMAGES,
    SEQUENCES,
    TREE_STRATEGY,
    PRODUCTS,
    VAES,
    RBMS,
    INDEPENDENT_STRATEGY,
    MWEM,
)

# `model="auto"` takes the first of these that does not refuse. Products come before networks: on msweb, plants,
# accidents, 100,000 transit records and Adult their errors on sets of up to three items and on marginals were smaller
# than, or equal to (within .002), those of VAEs trained by private SGD and refined to the same statistics, in a half to
# a third of the time (experiments/notes/fidelity.md). On sets of four and six items SGD won for plants at epsilon 1
# (by 11 and 16 %) and lost for accidents (by 20 %); no public number predicts which.
# Tables, and lists beside columns, go to trees: their relations survive better (docs/fidelity.md).
AUTO: tuple[Strategy, ...] = (IMAGES, SEQUENCES, TREE_STRATEGY, PRODUCTS, VAES)

_NO_ORDER = (
    "the domain has a sequence, and the model does not know the order of items; choose another model, or ignore the"
    " order by calling the field `kind: items`."
)


def strategy_of(name: str) -> Strategy:
    """The family with that name; raises UsageError if there is none."""
    validation.one_of([strategy.name for strategy in STRATEGIES], model=name)
    return next(strategy for strategy in STRATEGIES if strategy.name == name)


def check_model(model: str) -> None:
    """Refuse a name that is neither a family nor `auto`."""
    validation.one_of(["auto", *(strategy.name for strategy in STRATEGIES)], model=model)


def choose_strategy(config: Config, domain: Domain | None) -> Strategy:
    """The family that fits a request.

    Raises:
        UsageError: there is no such family, or it refuses the request.
    """
    if config.model == "auto":
        able = (strategy for strategy in AUTO if strategy.refuses(config, domain) is None)
        chosen = next((strategy for strategy in able if _refuses_order(strategy, domain) is None), None)
        if chosen is None:
            raise UsageError(_NO_ORDER)
        return chosen
    check_model(config.model)
    strategy = strategy_of(config.model)
    refused = strategy.refuses(config, domain) or _refuses_order(strategy, domain)
    if refused is not None:
        raise UsageError(refused)
    return strategy


def _refuses_order(strategy: Strategy, domain: Domain | None) -> str | None:
    """Why a family cannot fit a domain with a sequence; None if it can, or there is none."""
    ordered = domain is not None and domain.sequence is not None
    return _NO_ORDER if ordered and not strategy.models_order else None


def fit_generator(
    gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
) -> Generator:
    """Fit the plan's family. It sees no rows: what is returned is post-processing of the gateway's noisy values.

    So a test can replace the gateway by recorded noisy values and require the same release bit for bit.
    """
    return strategy_of(plan.settings.model).fit(gateway, plan, domain, draws=draws, context=context)


def rebuild(
    kind: str,
    architecture: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    domain: Domain,
    settings: FamilySettings | None = None,
) -> Generator:
    """A generator from the parts of a release; its family checks every name, shape and value.

    Without valid `settings` of its family, which only a release that does not verify lacks, those of this version hold.
    """
    for strategy in STRATEGIES:
        if strategy.name == kind:
            own = settings if isinstance(settings, strategy.settings_type) else strategy.settings_type()
            return strategy.load(architecture, tensors, domain, own)
    raise ArtefactError(f"the release holds a generator of the unknown kind {kind!r}; update dpgm.")
