"""Faults by which one record moves a sum too far, or reaches what follows by another way than the gateway."""

from mutant import Mutant

PIPELINE = "tests/synthesis/test_pipeline.py"
PLAYBACK = (f"{PIPELINE}::test_a_fit_is_a_function_of_its_noisy_values_alone",)
TRAINING = (
    "tests/networks/test_private_sgd.py::test_the_bound_on_one_record_is_reached",
    "tests/networks/test_private_sgd.py::test_one_record_moves_every_release_by_at_most_its_sensitivity",
)
TRAINED = ("tests/networks/test_private_sgd.py::test_everything_trained_is_a_function_of_the_noisy_values",)
KMEANS = ("tests/networks/test_kernel_kmeans.py",)
CLIP = "torch.div(self._bound, self._norms * SLACK)"
SQUARED = "        self._norms = self._batch.squared_norms(self._factors).sqrt_()\n"
UPDATE = "        self._update(gradients.to(self.device).contiguous(), bound, step)\n"
SUMS = ("tests/synthesis/test_whole_fits.py::test_every_release_is_a_sum_over_records",)
ADDITIONS = ("tests/synthesis/test_whole_fits.py::test_no_record_adds_more_than_the_sensitivity",)

MUTANTS = (
    Mutant(
        9,
        "features of norm 1.4",
        (
            (
                "cosine_table(math.sqrt(2 / self.features) * UNIT)",
                "cosine_table(1.4 * math.sqrt(2 / self.features) * UNIT)",
            ),
        ),
        (*KMEANS, "tests/statistics/test_fourier_features.py"),
    ),
    Mutant(
        10,
        "a record counts in two clusters",
        (
            (
                "        add_by_cluster(exact, assign(exact, units, offsets), counts, sums)\n",
                "        nearest_one = assign(exact, units, offsets)\n"
                "        add_by_cluster(exact, nearest_one, counts, sums)\n"
                "        add_by_cluster(exact, (nearest_one + 1) % len(counts), counts, sums)\n",
            ),
        ),
        KMEANS,
    ),
    Mutant(
        11,
        "centres start from rows",
        (
            (
                "        clustering = private_kmeans(\n",
                "        rows = self.gateway._records\n"
                "        if rows is not None and len(rows):\n"
                "            centers[0] = features.transform(rows.rows(0, 1))[0]\n"
                "        clustering = private_kmeans(\n",
            ),
        ),
        (f"{PIPELINE}::test_one_more_record_moves_every_release_within_its_bound", "-k", "vae or rbm"),
    ),
    Mutant(
        12,
        "chains start from rows",
        (
            (
                "        self.chains = model.begin(clusters, generator=self._chain_generator)\n",
                "        self.chains = model.begin(clusters, generator=self._chain_generator)\n"
                "        rows = gateway._records\n"
                "        if self.chains is not None and rows is not None and len(rows):\n"
                "            self.chains[:, 0] = torch.from_numpy(rows.rows(0, 1).to_dense()[0]).to(self.chains)\n",
            ),
        ),
        TRAINED,
    ),
    Mutant(
        13,
        "true sizes as mixture weights",
        (
            (
                "        return self._shares(noisy)\n",
                "        true = self.gateway._kept.get(CLUSTERS)\n"
                "        if true is not None:\n"
                "            noisy = torch.bincount(torch.as_tensor(true), minlength=sizes.clusters).double()\n"
                "        return self._shares(noisy)\n",
            ),
        ),
        PLAYBACK,
    ),
    Mutant(
        14,
        "norm bound from the exact histogram",
        (
            (
                "        bound = self.norm_bound.update(histogram)\n",
                '        bound = self.norm_bound.update(torch.as_tensor(getattr(self._pass, "_counts", histogram)).double())\n',
            ),
        ),
        TRAINED,
    ),
    Mutant(15, "no clipping", ((CLIP, CLIP.replace("self._bound", "1e30")),), TRAINING),
    Mutant(
        16,
        "clipping after the noise",
        (
            (CLIP, CLIP.replace("self._bound", "1e30")),
            (
                UPDATE,
                "        gradients = gradients * min(1.0, float(bound) / (float(gradients.norm()) + 1e-12))\n"
                + UPDATE,
            ),
        ),
        TRAINING,
    ),
    Mutant(
        17,
        "loss averaged over the batch before clipping",
        ((SQUARED, SQUARED.replace(".sqrt_()", ".sqrt_() / max(1, len(self._batch.draws))")),),
        TRAINING,
    ),
    Mutant(
        18,
        "division by the realised size of the batch",
        (
            (
                "        gradients.mul_(self._scales.unsqueeze(1))\n",
                '        gradients.mul_(self._scales.unsqueeze(1) / max(1, len(getattr(self._pass, "_norms", ()))))\n',
            ),
        ),
        TRAINED,
    ),
    Mutant(
        25,
        "a training loss in what is released",
        (
            (
                '        state = self.optimizer.state() | {"done": torch.tensor(self.done)}\n',
                '        state = self.optimizer.state() | {"done": torch.tensor(self.done)}\n'
                '        state["loss"] = torch.as_tensor(getattr(self._pass, "_norms", 0.0)).double().sum()\n',
            ),
        ),
        TRAINED,
    ),
    Mutant(
        27,
        "a gradient that is not a number poisons the sum",
        (
            (
                "        emptied = nothing if weights.is_cuda or bool(nothing.any()) else None\n",
                "        emptied = None\n",
            ),
        ),
        (
            "tests/networks/test_private_sgd.py::test_a_record_that_is_not_finite_leaves_the_others_as_they_are",
            "tests/networks/test_private_sgd.py",
        ),
    ),
    Mutant(
        29,
        "a vocabulary from the data: items that nobody holds are left out",
        (
            (
                "        start = self.model.warm(self.model.initial(settings.clusters, generator=self.draws), frequencies)\n",
                "        rows = self.gateway._records\n"
                "        if rows is not None:\n"
                "            seen = torch.zeros(self.domain.width, dtype=torch.bool)\n"
                '            seen[torch.as_tensor(rows.indices.astype("int64"))] = True\n'
                "            frequencies = torch.where(seen, frequencies, 1e-6)\n"
                "        start = self.model.warm(self.model.initial(settings.clusters, generator=self.draws), frequencies)\n",
            ),
        ),
        PLAYBACK,
    ),
    Mutant(
        30,
        "the realised size of a batch in a log line",
        (
            (
                UPDATE,
                UPDATE
                + '        __import__("logging").getLogger("dpgm").warning("batch %d", len(getattr(self._pass, "_norms", ())))\n',
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_a_fit_says_nothing_about_its_rows",),
    ),
    Mutant(
        32,
        "norms in half precision",
        ((SQUARED, SQUARED.replace(".sqrt_()", ".bfloat16().double().sqrt_()")),),
        ("tests/networks", "-k", "bound_on_one_record or wherever_the_record_stands or at_most_its_sensitivity"),
    ),
    Mutant(
        37,
        "latent draws numbered by row",
        (
            (
                "    def _fill_normals(self, rows: NDArray[np.int64], out: Tensor) -> None:\n"
                "        fill_with_normals(out, self.randomness)\n",
                "    def _fill_normals(self, rows: NDArray[np.int64], out: Tensor) -> None:\n"
                "        table = np.random.default_rng([7, self._step]).standard_normal((int(rows.max(initial=0)) + 1, out.shape[1]))\n"
                "        import torch\n\n"
                "        out.copy_(torch.from_numpy(table[rows]))\n",
            ),
        ),
        ("tests/networks/test_latent_draws.py", "tests/mechanisms/test_record_draws.py"),
    ),
    Mutant(
        43,
        "a discovery threshold for one value per record",
        (
            (
                "threshold=threshold_for(noise, delta, cap, rows),",
                "threshold=threshold_for(noise, delta, 1, rows),",
            ),
        ),
        ("tests/synthesis/test_exposure.py::test_values_of_one_person_are_published_no_more_often_than_promised",),
    ),
    Mutant(
        46,
        "a threshold that starts at one row of a person with several",
        (
            (
                "sums = 1 / np.sqrt(sizes) if rows == 1 else float(rows)",
                "sums = 1 / np.sqrt(sizes) if rows == 1 else 1.0",
            ),
        ),
        ("tests/synthesis/test_exposure.py::test_values_of_one_person_are_published_no_more_often_than_promised",),
    ),
    Mutant(
        47,
        "offsets of centred pairs from the exact frequencies",
        (
            (
                "        offsets = np.array(self.offsets, dtype=np.int64)\n        # (16 x_i",
                "        offsets = np.rint(STEPS * one / max(everyone, 1)).astype(np.int64)\n        # (16 x_i",
            ),
        ),
        SUMS,
    ),
    Mutant(
        48,
        "scaled counts of long records that are not scaled down",
        (
            (
                "steps = np.where(sizes <= self.limit, FULL_WEIGHT, np.floor(FULL_WEIGHT * shares))",
                "steps = np.where(sizes <= 4 * self.limit, FULL_WEIGHT, np.floor(FULL_WEIGHT * shares))",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        55,
        "short records counted whole and in the sets as well",
        (
            (
                "        steps[self._counted_whole] = 0\n",
                "",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        59,
        "weights of long records rounded to nearest, not down",
        (
            (
                "steps[n] = floor(sqrt(bound / comb(n, order)) / GRID)",
                "steps[n] = round(sqrt(bound / comb(n, order)) / GRID)",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        60,
        "an unpublished value becomes the commonest one of the rows",
        (
            (
                "fallback = field.width - 1 if has_missing else fallbacks.get(field.name, 0)",
                "fallback = field.width - 1 if has_missing else int(np.bincount(codes[codes >= 0], minlength=1).argmax())",
            ),
        ),
        SUMS,
    ),
    Mutant(
        61,
        "the histogram of decimal places not in the sensitivity",
        (
            (
                "sqrt(len(self.columns) + sum(self.steps))",
                "sqrt(len(self.columns))",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        62,
        "long records at full weight in cluster profiles",
        (
            (
                "        steps = clip_steps(width, 1, self.cap)\n",
                "        steps = clip_steps(width, 1, width)\n",
            ),
        ),
        ADDITIONS,
    ),
)
