"""Faults of the Poisson sample."""

from mutant import Mutant

SAMPLER = ("tests/mechanisms/test_sampling.py",)
COIN_OFF = ("tests/networks/test_private_sgd.py::test_one_record_moves_every_release_by_at_most_its_sensitivity",)
LAST = "    return [part[np.searchsorted(part, 0) : np.searchsorted(part, rows)] for part in parts]\n"
GAPS = "np.cumsum(_gaps(words, rate) + 1.0, axis=1)"

MUTANTS = (
    Mutant(
        20,
        "norm histogram over all rows, not the sample",
        (
            (
                "        self._pass_over(view, step)\n        return self._counts\n",
                "        self._pass_over(View(view.records, view.kept, None, view.fill_normals), step)\n"
                "        return self._counts\n",
            ),
        ),
        COIN_OFF,
    ),
    Mutant(
        21,
        "batches of a fixed size",
        (
            (
                LAST,
                "    size = round(rate * rows)\n"
                "    fixed = [np.random.default_rng(int(number)) for number in numbers]\n"
                "    return [np.sort(rng.choice(rows, size, replace=False)) for rng in fixed]\n",
            ),
        ),
        SAMPLER,
    ),
    Mutant(
        22,
        "shuffled epochs",
        (
            (
                LAST,
                "    size, made = max(1, round(rate * rows)), []\n"
                "    for number in numbers:\n"
                "        epoch, at = divmod(int(number) * size, max(rows, 1))\n"
                "        order = np.random.default_rng(epoch).permutation(rows)\n"
                "        made.append(np.sort(order[at : at + size]))\n"
                "    return made\n",
            ),
        ),
        SAMPLER,
    ),
    Mutant(23, "sampling rate 10 % too high", ((GAPS, GAPS.replace("rate)", "min(1.1 * rate, 0.999))")),), SAMPLER),
    Mutant(24, "sampling rate doubled", ((GAPS, GAPS.replace("rate)", "min(2 * rate, 0.999))")),), SAMPLER),
    Mutant(
        50,
        "the gateway's coins of another rate than is charged",
        (
            (
                "self._sample = (sample, float(rate), self._coins(float(rate)))",
                "self._sample = (sample, float(rate), self._coins(min(1.0, 1.1 * float(rate))))",
            ),
        ),
        ("tests/mechanisms/test_gateway.py::test_the_samples_of_a_gateway_have_the_rate_that_is_charged",),
    ),
)
