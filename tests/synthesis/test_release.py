"""A release round-trips, and no damaged or hostile folder does more than give one plain error."""

import json
import pickle
import resource
import shutil

import numpy as np
import pytest

import dpgm
from dpgm.cli.app import run as run_command
from dpgm.errors import ArtefactError, UsageError
from dpgm.synthesis.release import load
from dpgm.synthesis.sampling import Sample, write_sample
from release_data import edit, rehash, some_release
from synthesis_data import SETS, TABLE


def test_a_release_loads_and_samples_the_same(folder):
    again = load(folder)
    assert again.domain == SETS
    assert again.sample(100, seed=3) == some_release().sample(100, seed=3)
    assert dpgm.verify(folder).ok


def test_a_release_holds_these_files_and_no_others(folder):
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "certificate.html",
        "certificate.json",
        "domain.json",
        "measurements.parquet",
        "model.safetensors",
    }


@pytest.mark.parametrize("epsilon", [1, 2, np.int64(1), np.float32(1.5), np.float64(0.5)])
def test_a_release_of_any_kind_of_number_verifies(epsilon, tmp_path):
    records = dpgm.Records.from_lists([[0, 1], [1]] * 100, dpgm.Domain.of_items(3))
    dpgm.Synthesizer(epsilon=epsilon, delta=np.float64(1e-4)).fit(records).save(tmp_path / "r")
    assert dpgm.verify(tmp_path / "r").ok
    assert dpgm.load(tmp_path / "r").certificate.plan["target_epsilon"] == float(epsilon)


def test_a_release_of_a_stated_whole_mean_length_verifies(tmp_path):
    records = dpgm.Records.from_lists([[0, 1], [1]] * 100, dpgm.Domain.of_items(3))
    fitted = dpgm.Synthesizer(epsilon=1, model="rbm", preset="paper", clusters=1, mean_length=2).fit(records)
    fitted.save(tmp_path / "r")
    assert dpgm.verify(tmp_path / "r").ok


def test_an_existing_release_is_not_replaced_unless_forced(folder, tmp_path):
    with pytest.raises(UsageError, match="exists"):
        some_release().save(folder)
    some_release(TABLE).save(tmp_path / "r")
    some_release().save(tmp_path / "r", force=True)
    assert load(tmp_path / "r").domain == SETS


def _flip(path, rng):
    data = bytearray(path.read_bytes())
    # A rule of the plan is what the fit said it was: only a signature protects it.
    rules = data.find(b'"settings"')
    at = int(rng.integers(len(data) if rules < 0 else rules))
    data[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(data))


def _truncate(path, rng):
    data = path.read_bytes()
    path.write_bytes(data[: int(rng.integers(len(data)))])


def _huge_header(path, rng):
    data = path.read_bytes()
    path.write_bytes((2**63 - 1).to_bytes(8, "little") + data[8:])


def _huge_shape(path, rng):
    header = {"weights": {"dtype": "F64", "shape": [2**40, 2**20], "data_offsets": [0, 16]}}
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(16))


def _pickle(path, rng):
    path.write_bytes(pickle.dumps({"weights": list(range(100))}))


def _corrupted(folder, target, kind, seed):
    """A copy of the release with one fault; returns its path."""
    shutil.copytree(folder, target)
    rng = np.random.default_rng(seed)
    names = ["model.safetensors", "domain.json", "certificate.json", "README.md", "measurements.parquet"]
    name = names[seed % 5]
    if kind == "flip":
        _flip(target / name, rng)
    elif kind == "truncate":
        _truncate(target / name, rng)
    elif kind == "swap":
        other = names[(seed + 1 + seed // 5 % 4) % 5]
        first, second = (target / name).read_bytes(), (target / other).read_bytes()
        (target / name).write_bytes(second)
        (target / other).write_bytes(first)
    elif kind == "missing":
        (target / name).unlink()
    elif kind == "link":
        content = target.parent / f"outside-{seed}"
        content.write_bytes((target / name).read_bytes())
        (target / name).unlink()
        (target / name).symlink_to(content)
    elif kind in ("header", "shape", "pickle"):
        {"header": _huge_header, "shape": _huge_shape, "pickle": _pickle}[kind](target / "model.safetensors", rng)
        rehash(target)  # an attacker fixes the hash, too
    elif kind == "path":
        edit(target, lambda document: document["files"].update({"../../etc/passwd": "0" * 64}))
    elif kind == "architecture":
        models = [
            {"kind": "products", "components": 2**62},
            {"kind": "products", "components": -1},
            {"kind": "nonsense"},
            {},
            {"kind": "vae", "hidden": [10**9], "latent": 10**9, "clusters": 3, "with_chains": False},
        ]
        edit(target, lambda document: document.update(model=models[seed % 5]))
    return target


KINDS = (
    ["flip"] * 8
    + ["truncate"] * 5
    + ["swap", "missing", "link", "header", "shape", "pickle", "path", "architecture"]
)


def test_200_corrupted_releases_give_one_plain_error_each(folder, tmp_path, capsys):
    import dpgm.cli.privacy
    import dpgm.cli.synthetic  # noqa: F401  (registers the commands)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(200):
        kind = KINDS[seed % len(KINDS)]
        target = _corrupted(folder, tmp_path / f"{seed}", kind, seed)
        code = run_command(["sample", str(target), "--records", "5", "--out", str(tmp_path / "x.csv"), "--force"])
        printed = capsys.readouterr().err.strip().splitlines()
        errors = [line for line in printed if line.startswith("dpgm: error[E-")]
        assert code == 2, f"{kind} {seed}: {printed}"
        assert len(errors) == 1, f"{kind} {seed}: {printed}"
        assert "E-INTERNAL" not in errors[0], f"{kind} {seed}: {printed}"
        code = run_command(["verify", str(target)])
        printed = capsys.readouterr().err.strip().splitlines()
        assert code == 1, f"verify {kind} {seed}: {printed}"
        assert sum(line.startswith("dpgm: error[E-") for line in printed) == 1, f"verify {kind} {seed}: {printed}"
        assert "E-INTERNAL" not in printed[-1]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1_000_000  # kilobytes


def test_conditional_samples_meet_the_condition(folder):
    release = load(folder)
    conditioned = Sample(release.generator, SETS, 50, where=["items=0", "1"], seed=1)
    records = conditioned.records()
    assert len(records) == 50
    assert all(
        {0, 1} <= set(records.indices[a:b].tolist())
        for a, b in zip(records.indptr, records.indptr[1:], strict=False)
    )
    assert 0 < conditioned.rate < 1
    with pytest.raises(UsageError, match="no value '99'"):
        Sample(release.generator, SETS, 5, where=["items=99"]).records()


def test_a_condition_that_is_too_rare_is_refused_in_words():
    release = some_release()
    release.generator.probabilities[:, 5] = 0.0
    with pytest.raises(UsageError, match="fewer than"):
        Sample(release.generator, SETS, 5, where=["items=5"], seed=0).records()


def test_a_sample_does_not_depend_on_threads_and_repeats_with_its_seed(folder, tmp_path):
    from dpgm.synthesis.sampling import sample_chunks

    release = load(folder)
    one = [chunk.indices.tolist() for chunk in sample_chunks(release.generator, 40_000, seed=4, threads=1)]
    two = [chunk.indices.tolist() for chunk in sample_chunks(release.generator, 40_000, seed=4, threads=3)]
    assert one == two
    write_sample(release, 100, tmp_path / "a.jsonl", seed=9)
    write_sample(release, 100, tmp_path / "b.jsonl", seed=9)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_tensors_that_are_not_finite_are_refused(tmp_path):
    release = some_release()
    release.generator.probabilities[0, 0] = float("nan")
    release.save(tmp_path / "r")
    with pytest.raises(ArtefactError, match="finite"):
        load(tmp_path / "r")
