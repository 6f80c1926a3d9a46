"""Faults of what is charged, certified and read."""

from mutant import Mutant

BYTES = (
    "tests/synthesis/test_whole_fits.py::test_every_byte_that_a_fit_leaves_behind_or_prints_follows_from_its_noisy_values",
)

MUTANTS = (
    Mutant(
        31,
        "epsilon of the plan instead of what ran",
        (
            ("    spent = cost(gateway.spent, plan.delta)\n", "    spent = cost(plan.mechanisms, plan.delta)\n"),
            ("        mechanisms=gateway.spent,\n", "        mechanisms=plan.mechanisms,\n"),
        ),
        ("tests/synthesis/test_proofs.py::test_the_certificate_lists_what_ran",),
    ),
    Mutant(
        33,
        "training steps charged after they ran",
        (
            (
                '            checkpoint.charge("step", steps)\n            trainer.run(steps)\n',
                '            trainer.run(steps)\n            checkpoint.charge("step", steps)\n',
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_steps_are_charged_before_they_run",),
    ),
    Mutant(
        34,
        "numeric bounds widened from a chunk",
        (
            (
                "    above = np.clip(values, field.low, field.high) - field.low\n",
                "    reach = max(1.0, float(np.max(np.abs(values), initial=0.0)) / max(abs(field.low), abs(field.high), 1e-12))\n"
                "    above = (np.clip(values, field.low * reach, field.high * reach) - field.low * reach) / reach\n",
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_a_number_is_read_the_same_whatever_stands_beside_it",),
    ),
    Mutant(
        35,
        "an abandoned fit given back by `reserve`",
        (
            (
                'spent = sum(renyi.share(entry.charged) for entry in entries if entry.state != "void")\n',
                'spent = sum(renyi.share(entry.charged) for entry in entries if entry.state not in ("void", "abandoned"))\n',
            ),
        ),
        ("tests/privacy/test_ledger.py::test_an_abandoned_fit_is_never_given_back_to_the_next_reservation",),
    ),
    Mutant(
        38,
        "one charge too many goes through",
        (
            (
                "        if self._spent[key] + runs > entry.count:\n",
                "        if self._spent[key] + runs > entry.count + 1:\n",
            ),
        ),
        ("tests/mechanisms/test_gateway.py::test_one_run_too_many_is_refused",),
    ),
    Mutant(
        39,
        "noise, and a chance to be published, for values that fell out of the choice of a long record",
        (("        held = np.flatnonzero(sums)\n", "        held = np.arange(len(sums))\n"),),
        (
            "tests/mechanisms/test_threshold.py::test_a_record_of_far_more_values_than_the_cap_exposes_no_more_than_delta_allows",
        ),
    ),
    Mutant(
        40,
        "the size of a private vocabulary left on the disk",
        (
            (
                "return USUAL_ANSWER if isinstance(query, ThresholdQuery) else exact.numel() * exact.element_size()\n",
                "return exact.numel() * exact.element_size()\n",
            ),
        ),
        (
            "tests/synthesis/test_domain_discovery.py::test_the_room_set_aside_on_the_disk_tells_nothing_of_how_many_values_occur",
        ),
    ),
    Mutant(
        41,
        "rows between two stray quotation marks taken for one",
        (("    if next(rows, None) is not None:\n", "    if False:\n"),),
        ("tests/data/read/test_reading_rules.py::test_a_quotation_mark_within_a_cell_swallows_no_rows",),
    ),
    Mutant(
        42,
        "a first line of truth values published as names",
        ((' or cell.lower() in ("true", "false") for cell in stripped]\n', " for cell in stripped]\n"),),
        ("tests/data/read/test_reading_rules.py::test_a_first_line_of_truth_values_is_not_published_as_names",),
    ),
    Mutant(
        45,
        "the exact number of items in the certificate",
        (
            (
                'model={"kind": generator.kind} | generator.architecture,',
                'model={"kind": generator.kind, "items": len(gateway._records.indices)} | generator.architecture,',
            ),
        ),
        BYTES,
    ),
    Mutant(
        51,
        "a plan takes half of its share of the ledger",
        (
            (
                "            share = renyi.share(mechanisms)\n",
                "            share = renyi.share(mechanisms) / 2\n",
            ),
        ),
        ("tests/privacy/test_ledger.py::test_a_plan_larger_than_what_is_left_is_refused_however_small_the_excess",),
    ),
    Mutant(
        52,
        "the figure for replaced records is the one for added ones",
        (
            (
                "epsilon_replace_one=replace_one_epsilon(gateway.spent, plan.delta),",
                "epsilon_replace_one=spent.epsilon,",
            ),
        ),
        ("tests/synthesis/test_proofs.py::test_the_certificate_lists_what_ran",),
    ),
    Mutant(
        53,
        "multipliers rounded down",
        (
            (
                "    return rounded if rounded >= noise else (math.ceil(noise * 10.0**exponent) + 1) / 10.0**exponent\n",
                "    return math.floor(noise * 10.0**exponent) / 10.0**exponent\n",
            ),
        ),
        ("tests/privacy/test_calibration.py::test_rounding_is_upwards_and_small",),
    ),
    Mutant(
        54,
        "all of delta for the noise, although thresholds have taken some",
        (
            (
                "return delta - self.thresholds",
                "return delta",
            ),
        ),
        ("tests/privacy/test_thresholds.py",),
    ),
    Mutant(
        56,
        "true class sizes of images",
        (
            (
                "    sums = ask(gateway, MeanEmbedding(layout, design, device), noises[EMBEDDING])\n",
                '    sums = ask(gateway, MeanEmbedding(layout, design, device), noises[EMBEDDING])\n    object.__setattr__(sizes, "value", gateway._exact(ClassSizes(layout).query(), None).double())\n',
            ),
        ),
        BYTES,
    ),
    Mutant(
        57,
        "exact sums in the checkpoint",
        (
            (
                "        self._checkpoint.answer(call.name, noisy)\n",
                "        self._checkpoint.answer(call.name, noisy if exact.shape != noisy.shape else exact)\n",
            ),
        ),
        BYTES,
    ),
    Mutant(
        64,
        "the number of items on the terminal",
        (
            (
                "        _announce_fit(total, records.domain, planned, expected)\n",
                '        _announce_fit(total, records.domain, planned, expected)\n        announce(f"{len(records.indices)} items")\n',
            ),
        ),
        BYTES,
    ),
    Mutant(
        65,
        "one row of a person too many is read",
        (
            (
                "kept[order[rank < most]] = True",
                "kept[order[rank <= most]] = True",
            ),
        ),
        ("tests/synthesis/test_rows_per_person.py::test_at_most_k_rows_of_a_person_are_used",),
    ),
    Mutant(
        66,
        "a fingerprint of the rows under a key that anyone knows",
        (
            (
                '    key = parallel.bytes_from_first(_key() or b"")\n',
                '    key = parallel.bytes_from_first(_key() or b"") and b"dpgm"\n',
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
            (
                "spent = saved.lost | {m.name: saved.steps_charged for m in plan.mechanisms if m.sample is not None}",
                "spent = saved.lost",
            ),
        ),
        ("tests/synthesis/test_checkpoint.py::test_killed_at_every_journal_entry_a_fit_resumes_within_its_plan",),
    ),
    Mutant(
        68,
        "published values in the order in which rows first showed them",
        (
            (
                "    found.sort(key=lambda one: (one[0][0], isinstance(one[0][1], str), one[0][1]))\n",
                "",
            ),
        ),
        ("tests/mechanisms/test_threshold.py::test_published_values_stand_in_an_order_of_their_own",),
    ),
)
