"""Faults by which one record moves a sum too far, or reaches what follows by another way than the gateway."""

from mutant import Mutant, Patch

PIPELINE = "tests/synthesis/test_pipeline.py"
PLAYBACK = (f"{PIPELINE}::test_a_fit_is_a_function_of_its_noisy_values_alone",)
TRAINING = (
    "tests/networks/test_private_sgd.py::test_the_bound_on_one_record_is_reached",
    "tests/networks/test_private_sgd.py::test_one_record_moves_every_release_by_at_most_its_sensitivity",
)
TRAINED = ("tests/networks/test_private_sgd.py::test_everything_trained_is_a_function_of_the_noisy_values",)
KMEANS = ("tests/networks/test_kernel_kmeans.py",)
SUMS = ("tests/synthesis/test_whole_fits.py::test_every_release_is_a_sum_over_records",)
ADDITIONS = ("tests/synthesis/test_whole_fits.py::test_no_record_adds_more_than_the_sensitivity",)
EXPOSURE = (
    "tests/synthesis/test_exposure.py::test_values_of_one_person_are_published_no_more_often_than_promised",
)

NO_CLIPPING = Patch("dpgm.networks.private_sgd:GradientPass._sum_of_batch", "self._bound", "1e30")
NORMS = "dpgm.networks.private_sgd:GradientPass._norms_of_batch"
SQUARED = "self._batch.squared_norms(self._factors)"
STEP = "dpgm.networks.private_sgd:Trainer._step"
STEP_DONE = "self.done += 1"
STEP_GRADIENTS = "gradients.to(self.device).contiguous()"
FIT = "dpgm.networks.fitting:NetworkFit"

MUTANTS = (
    Mutant(
        9,
        "features of norm 1.4",
        (
            Patch(
                "dpgm.statistics.fourier_features:FourierFeatures._tables",
                "math.sqrt(2 / self.features)",
                "1.4 * math.sqrt(2 / self.features)",
            ),
        ),
        (*KMEANS, "tests/statistics/test_fourier_features.py"),
    ),
    Mutant(
        10,
        "a record counts in two clusters",
        (
            Patch(
                "dpgm.networks.kernel_kmeans:count_and_sum",
                "add_by_cluster(exact, assign(exact, units, offsets), counts, sums)",
                """
                nearest_one = assign(exact, units, offsets)
                add_by_cluster(exact, nearest_one, counts, sums)
                add_by_cluster(exact, (nearest_one + 1) % len(counts), counts, sums)
                """,
            ),
        ),
        KMEANS,
    ),
    Mutant(
        11,
        "centres start from rows",
        (
            Patch(
                f"{FIT}._cluster",
                "centers",
                "centers if not self.gateway._records else "
                "torch.cat([features.transform(self.gateway._records.rows(0, 1))[:1], centers[1:]])",
            ),
        ),
        (f"{PIPELINE}::test_one_more_record_moves_every_release_within_its_bound", "-k", "vae or rbm"),
    ),
    Mutant(
        12,
        "chains start from rows",
        (
            Patch(
                "dpgm.networks.private_sgd:Trainer.__init__",
                "self.done = 0",
                """
                self.done = 0
                rows = gateway._records
                if self.chains is not None and rows is not None and len(rows):
                    self.chains[:, 0] = torch.from_numpy(rows.rows(0, 1).to_dense()[0]).to(self.chains)
                """,
            ),
        ),
        TRAINED,
    ),
    Mutant(
        13,
        "true sizes as mixture weights",
        (
            Patch(
                f"{FIT}._mixture_weights",
                "return self._shares(noisy)",
                """
                true = self.gateway._kept.get(CLUSTERS)
                if true is not None:
                    noisy = torch.bincount(torch.as_tensor(true), minlength=sizes.clusters).double()
                return self._shares(noisy)
                """,
            ),
        ),
        PLAYBACK,
    ),
    Mutant(
        14,
        "norm bound from the exact histogram",
        (
            Patch(
                "dpgm.networks.private_sgd:Trainer._release_bound",
                "self.norm_bound.update(histogram)",
                'self.norm_bound.update(torch.as_tensor(getattr(self._pass, "_counts", histogram)).double())',
            ),
        ),
        TRAINED,
    ),
    Mutant(15, "no clipping", (NO_CLIPPING,), TRAINING),
    Mutant(
        16,
        "clipping after the noise",
        (
            NO_CLIPPING,
            Patch(
                STEP,
                STEP_GRADIENTS,
                f"{STEP_GRADIENTS} * min(1.0, float(bound) / (float(gradients.norm()) + 1e-12))",
            ),
        ),
        TRAINING,
    ),
    Mutant(
        17,
        "loss averaged over the batch before clipping",
        (Patch(NORMS, SQUARED, f"{SQUARED} / max(1, len(self._batch.draws)) ** 2"),),
        TRAINING,
    ),
    Mutant(
        18,
        "division by the realised size of the batch",
        (
            Patch(
                "dpgm.networks.private_sgd:Trainer._update",
                "self._scales.unsqueeze(1)",
                'self._scales.unsqueeze(1) / max(1, len(getattr(self._pass, "_norms", ())))',
            ),
        ),
        TRAINED,
    ),
    Mutant(
        25,
        "a training loss in what is released",
        (
            Patch(
                "dpgm.networks.private_sgd:Trainer.state",
                '{"done": torch.tensor(self.done)}',
                '{"done": torch.tensor(self.done), '
                '"loss": torch.as_tensor(getattr(self._pass, "_norms", 0.0)).double().sum()}',
            ),
        ),
        TRAINED,
    ),
    Mutant(
        27,
        "a gradient that is not a number poisons the sum",
        (
            Patch(
                "dpgm.networks.batch:Batch.weighted_sum",
                "nothing if weights.is_cuda or bool(nothing.any()) else None",
                "None",
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
            Patch(
                f"{FIT}._fit_records",
                "frequencies",
                "frequencies if self.gateway._records is None else torch.where("
                "torch.bincount(torch.as_tensor(self.gateway._records.indices.astype('int64')), "
                "minlength=self.domain.width) > 0, frequencies, 1e-6)",
            ),
        ),
        PLAYBACK,
    ),
    Mutant(
        30,
        "the realised size of a batch in a log line",
        (
            Patch(
                STEP,
                STEP_DONE,
                """
                __import__("logging").getLogger("dpgm").warning("batch %d", len(getattr(self._pass, "_norms", ())))
                self.done += 1
                """,
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_a_fit_says_nothing_about_its_rows",),
    ),
    Mutant(
        32,
        "norms in half precision",
        (Patch(NORMS, SQUARED, f"{SQUARED}.sqrt().bfloat16().double().square()"),),
        ("tests/networks", "-k", "bound_on_one_record or wherever_the_record_stands or at_most_its_sensitivity"),
    ),
    Mutant(
        37,
        "latent draws numbered by row",
        (
            Patch(
                "dpgm.mechanisms.gateway:Gateway._fill_normals",
                "fill_with_normals(out, self.randomness)",
                """
                shape = (int(rows.max(initial=0)) + 1, out.shape[1])
                table = np.random.default_rng([7, self._step]).standard_normal(shape)
                import torch
                out.copy_(torch.from_numpy(table[rows]))
                """,
            ),
        ),
        ("tests/networks/test_latent_draws.py", "tests/mechanisms/test_record_draws.py"),
    ),
    Mutant(
        43,
        "a discovery threshold for one value per record",
        (
            Patch(
                "dpgm.mechanisms.threshold:threshold_query",
                "threshold_for(noise, delta, cap, rows)",
                "threshold_for(noise, delta, 1, rows)",
            ),
        ),
        EXPOSURE,
    ),
    Mutant(
        46,
        "a threshold that starts at one row of a person with several",
        (
            Patch(
                "dpgm.mechanisms.threshold:threshold_for",
                "1 / np.sqrt(sizes) if rows == 1 else float(rows)",
                "1 / np.sqrt(sizes) if rows == 1 else 1.0",
            ),
        ),
        EXPOSURE,
    ),
    Mutant(
        47,
        "offsets of centred pairs from the exact frequencies",
        (
            Patch(
                "dpgm.statistics.centred_pairs:CentredPairs._sum",
                "np.array(self.offsets, dtype=np.int64)",
                "np.rint(STEPS * one / max(everyone, 1)).astype(np.int64)",
            ),
        ),
        SUMS,
    ),
    Mutant(
        48,
        "scaled counts of long records that are not scaled down",
        (
            Patch(
                "dpgm.statistics.scaled_items:ScaledItems.weight_steps",
                "sizes <= self.limit",
                "sizes <= 4 * self.limit",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        55,
        "short records counted whole and in the sets as well",
        (
            Patch(
                "dpgm.statistics.enumerated_sets:EnumeratedSets.weight_steps", "steps[self._counted_whole] = 0", ""
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        59,
        "weights of long records rounded to nearest, not down",
        (
            Patch(
                "dpgm.statistics.clipping:clip_steps",
                "floor(sqrt(bound / comb(n, order)) / GRID)",
                "round(sqrt(bound / comb(n, order)) / GRID)",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        60,
        "an unpublished value becomes the commonest one of the rows",
        (
            Patch(
                "dpgm.data.kinds.shaped:ShapedNumber.recoder.recode",
                "np.where(codes < 0, absent, codes)",
                "np.where(codes < 0, absent if self.missing else "
                "np.bincount(codes[codes >= 0], minlength=1).argmax(), codes)",
            ),
        ),
        SUMS,
    ),
    Mutant(
        61,
        "the histogram of decimal places not in the sensitivity",
        (
            Patch(
                "dpgm.statistics.number_histograms:BoundHistograms.query",
                "len(self.columns) + sum(self.steps)",
                "len(self.columns)",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        62,
        "long records at full weight in cluster profiles",
        (
            Patch(
                "dpgm.statistics.cluster_counts:ClusterProfiles._sum",
                "clip_steps(width, 1, self.cap)",
                "clip_steps(width, 1, width)",
            ),
        ),
        ADDITIONS,
    ),
    Mutant(
        69,
        "rows at full weight in pairs of columns",
        (
            Patch(
                "dpgm.statistics.pair_blocks:PairBlocks.weight_steps",
                "np.where(norms <= self.limit, FULL_WEIGHT, scaled)",
                "np.where(norms <= self.limit, FULL_WEIGHT, FULL_WEIGHT + 0 * scaled)",
            ),
        ),
        ("tests/statistics/test_pair_blocks.py",),
    ),
    Mutant(
        70,
        "the weight of a column not in the norm of its pairs",
        (
            Patch(
                "dpgm.statistics.pair_blocks:PairBlocks.squared_norms",
                "self.emphasis.astype(np.float64) ** 2",
                "16.0",
            ),
        ),
        ("tests/statistics/test_pair_blocks.py",),
    ),
    Mutant(
        71,
        "groups and limits of pairs are chosen on rows",
        (
            Patch(
                "dpgm.trees.measurement:measure_table",
                "chooser = _Chooser(coding, records, shares, rules)",
                """
                chooser = _Chooser(coding, records, shares, rules)
                if gateway._records is not None and len(gateway._records):
                    chooser._likely = coding.codes(gateway._records.rows(0, len(gateway._records)))
                """,
            ),
        ),
        ("tests/trees/test_fit.py::test_a_fit_is_a_function_of_released_values",),
    ),
)
