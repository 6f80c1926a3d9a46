"""Refinement is post-processing; a few steps are enough to see that everything is joined up."""

import pytest

import dpgm.products.fitting as refinement


@pytest.fixture
def short_refinement():
    """Use with `pytest.mark.usefixtures`."""
    original = refinement.FitSettings.__init__

    def short(self, *args, **named):
        original(self, *args, **named)
        object.__setattr__(self, "steps", 8)
        object.__setattr__(self, "components", 10)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refinement.FitSettings, "__init__", short)
        yield
