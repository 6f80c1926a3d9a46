import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.testing import differences


def one_record(*items):
    return Records.from_lists([items], Domain.of_items(6))


def test_every_bit_of_a_state_is_compared():
    state = {"a": torch.tensor([0.0, float("nan")]), "b": [np.arange(3), (b"x", None, 1.5)], "c": one_record(1)}
    other = {"a": torch.tensor([-0.0, float("nan")]), "b": [np.arange(3), (b"x", None, -0.0)], "c": one_record(2)}
    assert differences(state, state) == []
    assert differences(state, other) == ["state['a']", "state['b'][1][2]", "state['c'].indices"]
    assert differences({"a": 1}, {"b": 1}) == ["state (keys)"]
    assert differences([1], [1, 2]) == ["state (length)"]
    assert differences(1, 1.0) == ["state (type)"]
    assert differences(torch.zeros(2), torch.zeros(3)) == ["state (shape or dtype)"]
    assert differences(np.float64("nan"), np.float64("nan")) == []
    assert differences(torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)) == ["state"]


def test_objects_are_compared_by_what_they_hold():
    class Plain:
        def __init__(self, value):
            self.value = value

    assert differences(Plain(1), Plain(1)) == []
    assert differences(Plain(1), Plain(2)) == ["state['value']"]
    with pytest.raises(TypeError, match="cannot compare"):
        differences(object(), object())
