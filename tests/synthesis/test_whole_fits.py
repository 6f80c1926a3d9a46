"""What must hold for every mechanism of every family, watched at the gateway of whole fits."""

import pytest

import dpgm
from dpgm.synthesis.domain_discovery import MEASURES as DISCOVERY
from dpgm.synthesis.strategies import STRATEGIES
from dpgm.testing.noise_law import assert_all, normal_pvalues
from whole_fits import FITS, assert_record_by_record, noise_scores, traced

pytestmark = pytest.mark.filterwarnings("ignore::dpgm.PrivacyWarning")
ENOUGH = 6000  # residuals of a mechanism: noise 10 % too small then has p < 1e-15 in half of the cases
# Statistics that share the name of a mechanism with another; all others have a name of their own.
SHARING = {"EnumeratedSets", "ItemTuples", "CentredPairs", "ItemCounts", "ScaledItems"}


def test_every_mechanism_and_statistic_is_in_one_of_the_fits():
    calls = [call for whole in FITS.values() for call in traced(whole).calls]
    known = {name for strategy in STRATEGIES for name in strategy.measures} | set(DISCOVERY)
    assert {name for name, _ in calls} == known
    assert {type(getattr(query.compute, "__self__", None)).__name__ for _, query in calls} >= SHARING
    assert {whole.model for whole in FITS.values()} == {strategy.name for strategy in STRATEGIES}


@pytest.mark.parametrize("name", FITS)
def test_the_noise_of_every_mechanism_is_that_of_the_plan(name):
    whole = FITS[name]
    scores = noise_scores(whole, least=ENOUGH)
    for mechanism in whole.plan().mechanisms:
        assert sum(one.size for one in scores.get(mechanism.name, ())) >= ENOUGH, mechanism.name
    assert_all([found for each in scores for found in normal_pvalues(each, scores[each])])


@pytest.mark.parametrize("name", FITS)
def test_every_release_is_a_sum_over_records(name):
    assert_record_by_record(FITS[name])
