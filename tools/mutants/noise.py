"""Faults of the noise and of where it comes from."""

from mutant import Mutant, Patch

NOISE_LAW = ("tests/networks/test_private_sgd.py::test_noise_is_on_every_model_also_on_those_without_records",)
RANDOMNESS = (
    "tests/mechanisms/test_randomness.py::test_two_system_sources_share_nothing",
    "tests/mechanisms/test_randomness.py::test_words_are_uniform_and_never_repeat",
)
PLAN_NOISE = ("tests/synthesis/test_whole_fits.py::test_the_noise_of_every_mechanism_is_that_of_the_plan",)
NOISY = "dpgm.mechanisms.gateway:Gateway._noisy"
SUM_NOISE = "add_noise(exact, query, call.noise, self.randomness)"
ON_CPU = "dpgm.mechanisms.gaussian:_add_on_cpu"
STD = "noise * sensitivity"
DRAWS = "[add_normals(part, noise * sensitivity, grid, words) for part, words in parts]"
ENTROPY = "dpgm.mechanisms.randomness:SystemRandomness._entropy"

MUTANTS = (
    Mutant(
        1,
        "all noise / sqrt(2)",
        (Patch(NOISY, SUM_NOISE, SUM_NOISE.replace("call.noise", "call.noise / 2**0.5")),),
        NOISE_LAW,
    ),
    Mutant(2, "noise of floats (gradients) / sqrt(2)", (Patch(ON_CPU, STD, f"{STD} / 2**0.5"),), NOISE_LAW),
    Mutant(3, "noise of floats (gradients) 10 % low", (Patch(ON_CPU, STD, f"0.9 * {STD}"),), NOISE_LAW),
    Mutant(
        4,
        "histograms without noise",
        (
            Patch(
                "dpgm.mechanisms.gaussian:_add_integers",
                "rounded_gaussian(exact.numel(), fine, randomness).reshape(exact.shape)",
                "np.zeros(exact.shape, dtype=np.int64)",
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        5,
        "a quarter of the coordinates without noise",
        (Patch(ON_CPU, DRAWS, DRAWS.replace("(part,", "(part[len(part) // 4 :],")),),
        NOISE_LAW,
    ),
    Mutant(
        6,
        "one noise draw for all models",
        (
            Patch(
                ON_CPU,
                f"finite = {DRAWS}",
                """
                finite = [True]
                shared = np.zeros(exact.shape[-1], dtype=numbers.dtype)
                add_normals(shared, noise * sensitivity, grid, randomness.words_of_pieces(1)[0])
                numbers.reshape(exact.shape)[:] += shared
                """,
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        7,
        "noise reused at every call",
        (
            Patch(
                "dpgm.mechanisms.randomness:Randomness.fill",
                "self._noise.fill(out)",
                """
                if not hasattr(self, "_first_key"):
                    self._first_key = self._entropy(0, 64)
                self._noise = self._generator(self._first_key)
                self._noise.fill(out)
                """,
            ),
        ),
        (*NOISE_LAW, *RANDOMNESS),
    ),
    Mutant(8, "a fixed key", (Patch(ENTROPY, "os.urandom(count)", "bytes(count)"),), RANDOMNESS),
    Mutant(
        19,
        "no noise for an empty cluster",
        (Patch(ON_CPU, DRAWS, DRAWS.replace("in parts]", "in parts if bool(part.any())]")),),
        NOISE_LAW,
    ),
    Mutant(
        26,
        "all sources of a process have one key, so a resumed fit repeats its noise",
        (
            Patch(
                ENTROPY,
                "return os.urandom(count)",
                """
                kept = SystemRandomness.__dict__.get("_kept") or os.urandom(64)
                setattr(SystemRandomness, "_kept", kept)
                return kept[:count]
                """,
            ),
        ),
        RANDOMNESS,
    ),
    Mutant(
        28,
        "noise per half batch, each with half of the standard deviation",
        (
            Patch(
                ON_CPU, DRAWS, DRAWS.replace(STD, f"{STD} / 2").replace("in parts]", "in parts for _ in range(2)]")
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        36,
        "latent draws from a key that anyone can compute",
        (
            Patch(
                "dpgm.mechanisms.randomness:Randomness._fill_for_records",
                "self._entropy(_RECORDS, 64)",
                "bytes(64)",
            ),
        ),
        ("tests/networks/test_latent_draws.py", "tests/mechanisms/test_record_draws.py"),
    ),
    Mutant(
        44,
        "noise 10 % low for pair counts alone",
        (
            Patch(
                NOISY,
                SUM_NOISE,
                SUM_NOISE.replace("call.noise", '(0.9 if call.name == "pair counts" else 1.0) * call.noise'),
            ),
        ),
        PLAN_NOISE,
    ),
    Mutant(
        49,
        "a person of several rows counted once in record lengths",
        (
            Patch(
                "dpgm.mechanisms.gateway:Gateway._per_person",
                "rows * query.sensitivity",
                '(1 if name == "record lengths" else rows) * query.sensitivity',
            ),
        ),
        PLAN_NOISE,
    ),
    Mutant(
        58,
        "the same noise for every part of a long vector of counts",
        (
            Patch(
                "dpgm.mechanisms.rounded_gaussian:rounded_gaussian",
                "words = randomness.words(len(part))",
                "words = randomness.words(len(part)) if start == 0 else words[: len(part)]",
            ),
        ),
        ("tests/mechanisms/test_rounded_gaussian.py",),
    ),
    Mutant(
        63,
        "with a checkpoint, noise 10 % low for cluster profiles alone",
        (
            Patch(
                "dpgm.synthesis.books:CheckpointedGateway._answer",
                "self._noisy(call, query, exact)",
                'self._noisy(replace(call, noise=0.9 * call.noise) if call.name == "cluster profiles" else call, '
                "query, exact)",
            ),
        ),
        ("tests/synthesis/test_whole_fits.py::test_with_a_checkpoint_the_noise_is_that_of_the_plan",),
    ),
)
