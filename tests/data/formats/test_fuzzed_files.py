"""A few hundred of the 20,000 mutated files of `make assure RUNS=fuzz`: each is read, or refused with a message."""

import reader_fuzz


def test_changed_files_of_every_format_are_read_or_refused():
    done = reader_fuzz.batch(seed=100, files=240)
    assert sum(done.values()) == 240
    assert set(done) <= {"accepted", "E-INPUT", "E-USAGE", "E-RESOURCE"}
    assert done["accepted"] > 20
    assert done["E-INPUT"] > 20
