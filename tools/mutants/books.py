"""Faults of what is charged, certified and read."""

from mutant import Mutant, Patch

BYTES = (
    "tests/synthesis/test_whole_fits.py::test_every_byte_that_a_fit_leaves_behind_or_prints_follows_from_its_noisy_values",
)
CERTIFY = "dpgm.synthesis.certified_fit:certify"
RESERVE = "dpgm.privacy.ledger:Ledger._check_room"
PASSED = "dpgm.mechanisms.threshold:passed"

MUTANTS = (
    Mutant(
        31,
        "epsilon of the plan instead of what ran",
        (
            Patch(CERTIFY, "cost(gateway.spent, plan.delta)", "cost(plan.mechanisms, plan.delta)"),
            Patch(
                CERTIFY,
                "replace_one_epsilon(gateway.spent, plan.delta)",
                "replace_one_epsilon(plan.mechanisms, plan.delta)",
            ),
            Patch(CERTIFY, "odds(gateway.spent, plan.delta)", "odds(plan.mechanisms, plan.delta)"),
            Patch(CERTIFY, "gateway.spent", "plan.mechanisms"),
        ),
        ("tests/synthesis/test_proofs.py::test_the_certificate_lists_what_ran",),
    ),
    Mutant(
        33,
        "training steps charged after they ran",
        (
            Patch(
                "dpgm.networks.fitting:NetworkFit._train",
                """
                checkpoint.charge("step", steps)
                trainer.run(steps)
                """,
                """
                trainer.run(steps)
                checkpoint.charge("step", steps)
                """,
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_steps_are_charged_before_they_run",),
    ),
    Mutant(
        34,
        "numeric bounds widened from a chunk",
        (
            Patch(
                "dpgm.data.kinds.numeric:bin_of",
                "above = np.clip(values, field.low, field.high) - field.low",
                """
                reach = max(1.0, float(np.max(np.abs(values), initial=0.0)) / max(abs(field.low), abs(field.high), 1e-12))
                above = (np.clip(values, field.low * reach, field.high * reach) - field.low * reach) / reach
                """,
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_a_number_is_read_the_same_whatever_stands_beside_it",),
    ),
    Mutant(
        35,
        "an abandoned fit given back by `reserve`",
        (
            Patch(
                RESERVE,
                'sum(renyi.share(entry.charged) for entry in entries if entry.state != "void")',
                'sum(renyi.share(entry.charged) for entry in entries if entry.state not in ("void", "abandoned"))',
            ),
        ),
        ("tests/privacy/test_ledger.py::test_an_abandoned_fit_is_never_given_back_to_the_next_reservation",),
    ),
    Mutant(
        38,
        "one charge too many goes through",
        (
            Patch(
                "dpgm.mechanisms.gateway:Gateway._refuse_if_over",
                "self._spent[key] + runs > entry.count",
                "self._spent[key] + runs > entry.count + 1",
            ),
        ),
        ("tests/mechanisms/test_gateway.py::test_one_run_too_many_is_refused",),
    ),
    Mutant(
        39,
        "noise, and a chance to be published, for values that fell out of the choice of a long record",
        (Patch(PASSED, "np.flatnonzero(sums)", "np.arange(len(sums))"),),
        (
            "tests/mechanisms/test_threshold.py::test_a_record_of_far_more_values_than_the_cap_exposes_no_more_than_delta_allows",
        ),
    ),
    Mutant(
        40,
        "the size of a private vocabulary left on the disk",
        (
            Patch(
                "dpgm.synthesis.books:_room_for",
                "USUAL_ANSWER if isinstance(query, ThresholdQuery) else exact.numel() * exact.element_size()",
                "exact.numel() * exact.element_size()",
            ),
        ),
        (
            "tests/synthesis/test_domain_discovery.py::test_the_room_set_aside_on_the_disk_tells_nothing_of_how_many_values_occur",
        ),
    ),
    Mutant(
        41,
        "rows between two stray quotation marks taken for one",
        (Patch("dpgm.data.formats.lines:split_cells", "next(rows, None) is not None", "False"),),
        ("tests/data/read/test_reading_rules.py::test_a_quotation_mark_within_a_cell_swallows_no_rows",),
    ),
    Mutant(
        42,
        "a first line of truth values published as names",
        (
            Patch(
                "dpgm.data.formats.headers:_is_header",
                'is_number_text(cell) or cell.lower() in ("true", "false")',
                "is_number_text(cell)",
            ),
        ),
        ("tests/data/read/test_reading_rules.py::test_a_first_line_of_truth_values_is_not_published_as_names",),
    ),
    Mutant(
        45,
        "the exact number of items in the certificate",
        (
            Patch(
                CERTIFY,
                '{"kind": generator.kind} | generator.architecture',
                '{"kind": generator.kind, "items": len(gateway._records.indices)} | generator.architecture',
            ),
        ),
        BYTES,
    ),
    Mutant(
        51,
        "a plan takes half of its share of the ledger",
        (Patch(RESERVE, "renyi.share(mechanisms)", "renyi.share(mechanisms) / 2"),),
        ("tests/privacy/test_ledger.py::test_a_plan_larger_than_what_is_left_is_refused_however_small_the_excess",),
    ),
    Mutant(
        52,
        "the figure for replaced records is the one for added ones",
        (Patch(CERTIFY, "replace_one_epsilon(gateway.spent, plan.delta)", "spent.epsilon"),),
        ("tests/synthesis/test_proofs.py::test_the_certificate_lists_what_ran",),
    ),
    Mutant(
        53,
        "multipliers rounded down",
        (
            Patch(
                "dpgm.privacy.calibration:round_up",
                "return rounded if rounded >= noise else (math.ceil(noise * 10.0**exponent) + 1) / 10.0**exponent",
                "return math.floor(noise * 10.0**exponent) / 10.0**exponent",
            ),
        ),
        ("tests/privacy/test_calibration.py::test_rounding_is_upwards_and_small",),
    ),
    Mutant(
        54,
        "all of delta for the noise, although thresholds have taken some",
        (Patch("dpgm.privacy.accountant:NormalForm.left", "delta - self.thresholds", "delta"),),
        ("tests/privacy/test_thresholds.py",),
    ),
    Mutant(
        56,
        "true class sizes of images",
        (
            Patch(
                "dpgm.images.measurement:measure_images",
                "sizes.value",
                "gateway._exact(ClassSizes(layout).query(), None).double()",
            ),
        ),
        BYTES,
    ),
    Mutant(
        57,
        "exact sums in the checkpoint",
        (
            Patch(
                "dpgm.synthesis.books:CheckpointedGateway._answer",
                "self._checkpoint.answer(call.name, noisy)",
                "self._checkpoint.answer(call.name, noisy if exact.shape != noisy.shape else exact)",
            ),
        ),
        BYTES,
    ),
    Mutant(
        64,
        "the number of items on the terminal",
        (
            Patch(
                "dpgm.cli.fitting:fit.announce_start",
                "_announce_fit(total, records.domain, planned, needed)",
                """
                _announce_fit(total, records.domain, planned, needed)
                announce(f"{len(records.indices)} items")
                """,
            ),
        ),
        BYTES,
    ),
    Mutant(
        65,
        "one row of a person too many is read",
        (Patch("dpgm.data.read.persons:_sample_rows", "rank < most", "rank <= most"),),
        ("tests/synthesis/test_rows_per_person.py::test_at_most_k_rows_of_a_person_are_used",),
    ),
    Mutant(
        66,
        "a fingerprint of the rows under a key that anyone knows",
        (
            Patch(
                "dpgm.synthesis.fingerprint:rows_fingerprint",
                'parallel.bytes_from_first(_key() or b"")',
                'parallel.bytes_from_first(_key() or b"") and b"dpgm"',
            ),
        ),
        (
            "tests/synthesis/test_checkpoint.py::test_the_fingerprint_tells_rows_apart_and_its_key_is_not_in_the_checkpoint",
        ),
    ),
    Mutant(
        67,
        "a resumed fit forgets the steps of the one that was stopped",
        (
            Patch(
                "dpgm.synthesis.books:Books.gateway",
                "saved.lost | {m.name: saved.steps_charged for m in plan.mechanisms if m.sample is not None}",
                "saved.lost",
            ),
        ),
        ("tests/synthesis/test_checkpoint.py::test_killed_at_every_journal_entry_a_fit_resumes_within_its_plan",),
    ),
    Mutant(
        68,
        "published values in the order in which rows first showed them",
        (Patch(PASSED, "found.sort(key=lambda one: (one[0][0], isinstance(one[0][1], str), one[0][1]))", ""),),
        ("tests/mechanisms/test_threshold.py::test_published_values_stand_in_an_order_of_their_own",),
    ),
)
