"""Faults of the noise and of where it comes from."""

from mutant import Mutant

NOISE_LAW = ("tests/networks/test_private_sgd.py::test_noise_is_on_every_model_also_on_those_without_records",)
RANDOMNESS = (
    "tests/mechanisms/test_randomness.py::test_two_system_sources_share_nothing",
    "tests/mechanisms/test_randomness.py::test_words_are_uniform_and_never_repeat",
)
CPU_NOISE = "[add_normals(part, noise * sensitivity, grid, words) for part, words in parts]"
FILL = "            self.names_used.add(self.name)\n            self._noise.fill(out)\n"
PLAN_NOISE = ("tests/synthesis/test_whole_fits.py::test_the_noise_of_every_mechanism_is_that_of_the_plan",)

MUTANTS = (
    Mutant(
        1,
        "all noise / sqrt(2)",
        (
            (
                "return add_noise(exact, query, call.noise, self.",
                "return add_noise(exact, query, call.noise / 2**0.5, self.",
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        2,
        "noise of floats (gradients) / sqrt(2)",
        ((CPU_NOISE, CPU_NOISE.replace("noise * sensitivity", "noise * sensitivity / 2**0.5")),),
        NOISE_LAW,
    ),
    Mutant(
        3,
        "noise of floats (gradients) 10 % low",
        ((CPU_NOISE, CPU_NOISE.replace("noise * sensitivity", "0.9 * noise * sensitivity")),),
        NOISE_LAW,
    ),
    Mutant(
        4,
        "histograms without noise",
        (
            (
                "units = few_rounded_gaussians(exact.numel(), fine, randomness).reshape(exact.shape)",
                "units = np.zeros(exact.shape, dtype=np.int64)",
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        5,
        "a quarter of the coordinates without noise",
        ((CPU_NOISE, CPU_NOISE.replace("(part,", "(part[len(part) // 4 :],")),),
        NOISE_LAW,
    ),
    Mutant(
        6,
        "one noise draw for all models",
        (
            (
                f"    finite = {CPU_NOISE}\n",
                "    finite = [True]\n"
                "    shared = np.zeros(exact.shape[-1], dtype=numbers.dtype)\n"
                "    add_normals(shared, noise * sensitivity, grid, randomness.words_of_pieces(1)[0])\n"
                "    numbers.reshape(exact.shape)[:] += shared\n",
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        7,
        "noise reused at every call",
        (
            (
                FILL,
                "            self.names_used.add(self.name)\n"
                '            if not hasattr(self, "_first_key"):\n'
                "                self._first_key = self._entropy(0, 64)\n"
                "            self._noise = self._generator(self._first_key)\n"
                "            self._noise.fill(out)\n",
            ),
        ),
        (*NOISE_LAW, *RANDOMNESS),
    ),
    Mutant(
        8,
        "a fixed key",
        (
            (
                "    def _entropy(self, purpose: int, count: int) -> bytes:\n        return os.urandom(count)\n",
                "    def _entropy(self, purpose: int, count: int) -> bytes:\n        return bytes(count)\n",
            ),
        ),
        RANDOMNESS,
    ),
    Mutant(
        19,
        "no noise for an empty cluster",
        ((CPU_NOISE, CPU_NOISE.replace("in parts]", "in parts if bool(part.any())]")),),
        NOISE_LAW,
    ),
    Mutant(
        26,
        "all sources of a process have one key, so a resumed fit repeats its noise",
        (
            (
                "    def _entropy(self, purpose: int, count: int) -> bytes:\n        return os.urandom(count)\n",
                "    def _entropy(self, purpose: int, count: int) -> bytes:\n"
                '        kept = SystemRandomness.__dict__.get("_kept") or os.urandom(64)\n'
                '        setattr(SystemRandomness, "_kept", kept)\n'
                "        return kept[:count]\n",
            ),
        ),
        RANDOMNESS,
    ),
    Mutant(
        28,
        "noise per half batch, each with half of the standard deviation",
        (
            (
                CPU_NOISE,
                "[add_normals(part, noise * sensitivity / 2, grid, words) for part, words in parts for _ in range(2)]",
            ),
        ),
        NOISE_LAW,
    ),
    Mutant(
        36,
        "latent draws from a key that anyone can compute",
        (
            (
                "self._of_records = self._generator(self._entropy(_RECORDS, 64))",
                "self._of_records = self._generator(bytes(64))",
            ),
        ),
        ("tests/networks/test_latent_draws.py", "tests/mechanisms/test_record_draws.py"),
    ),
    Mutant(
        44,
        "noise 10 % low for pair counts alone",
        (
            (
                "return add_noise(exact, query, call.noise, self.",
                'return add_noise(exact, query, (0.9 if call.name == "pair counts" else 1.0) * call.noise, self.',
            ),
        ),
        PLAN_NOISE,
    ),
    Mutant(
        49,
        "a person of several rows counted once in record lengths",
        (
            (
                "return replace(query, sensitivity=rows * query.sensitivity), multiplier",
                'return replace(query, sensitivity=(1 if name == "record lengths" else rows) * query.sensitivity), multiplier',
            ),
        ),
        PLAN_NOISE,
    ),
    Mutant(
        58,
        "noise drawn ahead is given out again and again",
        (
            (
                "        ahead.left[std] = left[count:]\n",
                "        ahead.left[std] = left if len(left) > count else left[count:]\n",
            ),
        ),
        PLAN_NOISE,
    ),
    Mutant(
        63,
        "with a checkpoint, noise 10 % low for cluster profiles alone",
        (
            (
                "        noisy = self._noisy(call, query, exact)\n        self._checkpoint",
                '        noisy = self._noisy(replace(call, noise=0.9 * call.noise) if call.name == "cluster profiles" else call, query, exact)\n        self._checkpoint',
            ),
        ),
        ("tests/synthesis/test_whole_fits.py::test_with_a_checkpoint_the_noise_is_that_of_the_plan",),
    ),
)
