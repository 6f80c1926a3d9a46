import json
from pathlib import Path

import pytest

from dpgm.errors import UsageError
from dpgm.privacy.paper_accountant import (
    ELEVENTHS,
    FINE_GRID,
    NOT_VALID,
    log_first_moment,
    log_second_moment,
    printed_cost,
    split_moment,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))
MNIST = {
    "sampling_rate": 0.0017,
    "delta": 1e-5,
    "gradient_noise": 1.0,
    "norm_noise": 4.0,
    "cluster_noise": 40.0,
    "cluster_steps": 20,
}


@pytest.mark.parametrize("vector", VECTORS["moments_E1_E2"])
def test_both_moments_match_the_oracle(vector):
    arguments = (vector["lam"], vector["q"], vector["sigma"])
    assert log_first_moment(*arguments) == pytest.approx(vector["log_E1"], rel=1e-6)
    assert log_second_moment(*arguments) == pytest.approx(vector["log_E2"], rel=1e-6)


def test_the_papers_mnist_figure_is_reproduced():
    found = printed_cost(steps=589 * 20, **MNIST)
    assert found.epsilon == pytest.approx(1.741820325151631, abs=1e-6)
    assert round(found.epsilon, 2) == 1.74
    assert found.moment == 10
    assert found.note == NOT_VALID == "as printed; not a valid bound"


@pytest.mark.parametrize("epochs", range(1, 21))
def test_every_epoch_matches_on_the_coarse_grid(epochs):
    expected, moment = VECTORS["mnist"]["paper_as_printed"]["i/11, i=1..10"][str(epochs)]
    found = printed_cost(steps=589 * epochs, grid=ELEVENTHS, **MNIST)
    assert found.epsilon == pytest.approx(expected, abs=1e-6)
    assert found.moment == moment


@pytest.mark.slow
@pytest.mark.parametrize("epochs", range(1, 21))
def test_every_epoch_matches_on_the_fine_grid(epochs):
    expected, moment = VECTORS["mnist"]["paper_as_printed"]["fine 0.005..0.995"][str(epochs)]
    found = printed_cost(steps=589 * epochs, **MNIST)
    assert found.epsilon == pytest.approx(expected, abs=1e-6)
    assert found.moment == moment


@pytest.mark.parametrize("setting", VECTORS["cdr_transit_paper_formula"])
def test_the_large_data_sets_match_the_oracle(setting):
    block = VECTORS["cdr_transit_paper_formula"][setting]
    rate, delta = (1e-4, 1e-6) if "TRANSIT" in setting else (2.2e-5, 4.4e-6 if "4.4e-6" in setting else 1 / 4427486)
    for name, (expected, moment) in block["eps"].items():
        noise, epochs, clusters = name.split(",")
        found = printed_cost(
            sampling_rate=rate,
            steps=block["steps_per_epoch"] * int(epochs.split("=")[1]),
            delta=delta,
            gradient_noise=float(noise.split("=")[1]),
            norm_noise=4.0,
            cluster_noise=None if clusters == "no kmeans" else 40.0,
            cluster_steps=20,
            grid=ELEVENTHS,
        )
        assert found.epsilon == pytest.approx(expected, rel=1e-5)
        assert found.moment == moment


def test_the_printed_split_is_below_the_true_moment():
    # The counterexample to the paper's Hoelder step: the true joint moment is half as large again.
    vector = VECTORS["counterexamples"]["hoelder_alpha_level_at_paper_parameters"]
    printed = split_moment(11, 0.0017, 4.0, 1.0, FINE_GRID)
    assert printed == pytest.approx(vector["holder_rhs_min_float"], rel=1e-6)
    assert printed < vector["joint_alpha_mp"]


@pytest.mark.parametrize("change", [{"delta": 0}, {"sampling_rate": 1}, {"gradient_noise": 0}, {"steps": 0}])
def test_bad_input_is_refused(change):
    with pytest.raises(UsageError):
        printed_cost(**{"steps": 10, **MNIST, **change})
