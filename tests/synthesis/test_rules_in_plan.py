"""Every tuned number that a fit uses comes from its plan: a fit runs while all rules of modules are out of reach."""

import ast
import dataclasses
import functools
import inspect
import os
import sys
import types
import typing
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.products import targets
from dpgm.products.fitting import FitSettings
from dpgm.products.rules import PRODUCT_RULES
from dpgm.statistics.shrinkage import shrink_alone
from dpgm.strategy import memory_rules
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.strategies import STRATEGIES
from whole_fits import FITS

pytestmark = pytest.mark.filterwarnings("ignore::dpgm.PrivacyWarning")
# Rules that steer no fit: how much memory one needs, and what a report of the curator judges.
ELSEWHERE = {memory_rules.__name__, "dpgm.evaluation.kept_rules"}  # rules that rows keep


class Poisoned:
    """Stands in the place of rules, and of numbers that are taken from them; whoever uses it fails."""

    def __init__(self, where):
        self.__dict__["where"] = where

    def __getattr__(self, name):
        raise AssertionError(f"a fit reads {self.where} ({name}), not its plan")


def package():
    return [module for name, module in list(sys.modules.items()) if name.startswith("dpgm.") and module is not None]


def rule_classes():
    """The dataclasses of the modules named `...rules`."""
    for module in package():
        if module.__name__.endswith("rules") and module.__name__ not in ELSEWHERE:
            for kind in vars(module).values():
                own = isinstance(kind, type) and kind.__module__ == module.__name__
                if own and dataclasses.is_dataclass(kind):
                    yield kind


def is_from_rules(default):
    """Whether the source of a default mentions rules of a module: `PRODUCT_RULES.fit.steps`."""
    names = {node.id for node in ast.walk(default) if isinstance(node, ast.Name)}
    return any(name.endswith("_RULES") and name != "MEMORY_RULES" for name in names)


@functools.cache
def defaults_from_rules(module):
    """Functions, and the names of their arguments whose defaults are taken from rules of modules."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args]
            given = [*zip(arguments[::-1], node.args.defaults[::-1], strict=False)]
            given += [one for one in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if one[1]]
            names = {argument.arg for argument, default in given if is_from_rules(default)}
            if names:
                found[node.name] = names
        elif isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and one.value]
            names = {one.target.id for one in fields if is_from_rules(one.value)}
            if names:
                found[node.name] = names
    return found


def functions_of(module):
    """Every function and method of a module; the makers of its dataclasses are named like the class."""
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__:
            if dataclasses.is_dataclass(value):
                yield value.__name__, value.__init__
            for one in vars(value).values():
                method = getattr(one, "__func__", getattr(one, "fget", None) or getattr(one, "func", one))
                if isinstance(method, types.FunctionType):
                    yield method.__name__, method
        elif isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            yield value.__name__, value


def poison_defaults(patch, where, function, names):
    parameters = list(inspect.signature(function).parameters.values())
    positional = [one for one in parameters if one.kind is not one.KEYWORD_ONLY and one.default is not one.empty]
    if function.__defaults__ and any(one.name in names for one in positional):
        kept = [Poisoned(where) if one.name in names else one.default for one in positional]
        patch.setattr(function, "__defaults__", tuple(kept))
    for name in names & set(function.__kwdefaults__ or {}):
        patch.setitem(function.__kwdefaults__, name, Poisoned(where))


@contextmanager
def poisoned():
    """Rules of modules, and defaults of arguments that are taken from them, cannot be used."""
    kinds = tuple(rule_classes())
    with pytest.MonkeyPatch.context() as patch:
        for module in package():
            names = defaults_from_rules(module)
            for name, function in functions_of(module):
                if name in names and function.__module__ not in {kind.__module__ for kind in kinds}:
                    poison_defaults(patch, f"the defaults of {module.__name__}.{name}", function, names[name])
            for name, value in list(vars(module).items()):
                if isinstance(value, kinds):
                    patch.setattr(module, name, Poisoned(f"{module.__name__}.{name}"))
        yield


def fit_from_plan_alone(whole, monkeypatch):
    """A fit by a plan that was written and read, so that its rules are objects of their own; and a sample."""
    plan = Plan.from_json(whole.plan().to_json())
    records = whole.rows(1)
    monkeypatch.setattr(type(whole), "plan", lambda self: plan)
    monkeypatch.setattr(type(whole), "rows", lambda self, seed: records)
    with poisoned():
        release = whole.run(SeededRandomness(0)).release_
        release.generator.sample(30, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", FITS)
def test_a_fit_reads_no_rule_but_those_of_its_plan(name, monkeypatch):
    fit_from_plan_alone(FITS[name], monkeypatch)


def test_a_planted_rule_of_a_module_is_seen(monkeypatch):
    mean_length = targets.mean_length

    def planted(lengths):
        return mean_length(lengths) * targets.PLANTED_RULES.fit.steps / 600

    monkeypatch.setattr(targets, "PLANTED_RULES", PRODUCT_RULES, raising=False)
    monkeypatch.setattr(targets, "mean_length", planted)
    with pytest.raises(AssertionError, match=r"reads dpgm\.products\.targets\.PLANTED_RULES"):
        fit_from_plan_alone(FITS["products, sets"], monkeypatch)


def test_planted_defaults_are_seen():
    with poisoned():
        with pytest.raises(
            AssertionError, match=r"reads the defaults of dpgm\.statistics\.shrinkage\.shrink_alone"
        ):
            shrink_alone(np.ones(3), 1.0)
        with pytest.raises(TypeError):
            FitSettings(components=2, steps=1).learning_rate * 2
    assert FitSettings(components=2, steps=1).learning_rate * 2 == 2 * PRODUCT_RULES.fit.learning_rate


@pytest.mark.parametrize("name", FITS)
def test_no_plan_depends_on_the_machine(name, monkeypatch):
    whole, plans = FITS[name], []
    config = Config(whole.epsilon, 0.1 / whole.records, model=whole.model)
    for gpu, cores in ((False, 1), (True, 64)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        plans.append(make_plan(config, whole.records, whole.domain).to_json())
    assert plans[0] == plans[1]


def reached(kind, found):
    """All dataclasses among the fields of a dataclass, and theirs."""
    if kind in found or not dataclasses.is_dataclass(kind):
        return
    found |= {one for one in kind.__mro__ if dataclasses.is_dataclass(one)}
    for hint in typing.get_type_hints(kind).values():
        for one in (hint, *typing.get_args(hint)):
            reached(one, found)


def test_every_rule_is_part_of_the_settings_of_some_family():
    found = set()
    for strategy in STRATEGIES:
        reached(strategy.settings_type, found)
    reached(DiscoveryRules, found)
    assert {f"{kind.__module__}.{kind.__name__}" for kind in rule_classes() if kind not in found} == set()
