"""Faults of the Poisson sample."""

from mutant import Mutant, Patch

SAMPLER = ("tests/mechanisms/test_sampling.py",)
COIN_OFF = ("tests/networks/test_private_sgd.py::test_one_record_moves_every_release_by_at_most_its_sensitivity",)
COINS = "dpgm.mechanisms.sampling:poisson_samples"
LAST = "return [part[np.searchsorted(part, 0) : np.searchsorted(part, rows)] for part in parts]"
GAPS = "_gaps(words, rate)"

MUTANTS = (
    Mutant(
        20,
        "norm histogram over all rows, not the sample",
        (
            Patch(
                "dpgm.networks.private_sgd:GradientPass.histogram",
                "self._pass_over(view, step)",
                "self._pass_over(View(view.records, view.kept, None, view.fill_normals), step)",
            ),
        ),
        COIN_OFF,
    ),
    Mutant(
        21,
        "batches of a fixed size",
        (
            Patch(
                COINS,
                LAST,
                """
                size = round(rate * rows)
                fixed = [np.random.default_rng(int(number)) for number in numbers]
                return [np.sort(rng.choice(rows, size, replace=False)) for rng in fixed]
                """,
            ),
        ),
        SAMPLER,
    ),
    Mutant(
        22,
        "shuffled epochs",
        (
            Patch(
                COINS,
                LAST,
                """
                size, made = max(1, round(rate * rows)), []
                for number in numbers:
                    epoch, at = divmod(int(number) * size, max(rows, 1))
                    order = np.random.default_rng(epoch).permutation(rows)
                    made.append(np.sort(order[at : at + size]))
                return made
                """,
            ),
        ),
        SAMPLER,
    ),
    Mutant(
        23,
        "sampling rate 10 % too high",
        (Patch(COINS, GAPS, "_gaps(words, min(1.1 * rate, 0.999))"),),
        SAMPLER,
    ),
    Mutant(24, "sampling rate doubled", (Patch(COINS, GAPS, "_gaps(words, min(2 * rate, 0.999))"),), SAMPLER),
    Mutant(
        50,
        "the gateway's coins of another rate than is charged",
        (
            Patch(
                "dpgm.mechanisms.gateway:Gateway.poisson",
                "self._coins(float(rate))",
                "self._coins(min(1.0, 1.1 * float(rate)))",
            ),
        ),
        ("tests/mechanisms/test_gateway.py::test_the_samples_of_a_gateway_have_the_rate_that_is_charged",),
    ),
)
