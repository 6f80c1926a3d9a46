"""Every file and every number that a fit writes is traced to a mechanism of the certificate or to a public input.

The map below is written by hand, independently of the code that writes; a name that is not in it fails the test. That
a tensor really depends on nothing but the mechanism's noisy values is shown by playing the tape back without data.
"""

import json

import pytest
import torch
from safetensors.torch import load_file

import dpgm
from dpgm.mechanisms.gateway import PlaybackGateway, TraceGateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.strategy.protocol import RunContext
from dpgm.synthesis.release import Release
from dpgm.synthesis.strategies import fit_generator
from synthesis_data import BY_LABEL, CLICKS, COLUMNS, IMAGES, SETS, TABLE, some_records, tiny_plan

PUBLIC = "public input"
# name of a tensor -> the mechanisms it may depend on
COUNTS = {"record lengths", "item counts", "scaled item counts", "popular lengths", "pair counts"}
LARGER = {"triple counts", "quadruple counts"}
BLOCKS = {"column counts", "coarse pairs", "full pairs", "rank pairs"}
BLOCKS |= {"list items", "items by groups", "items by values", "items together"}
OF_BLOCKS = ("parameters", "sums", "noise", "groups", "widths", "features", "pairs", "emphasis", "limit")
OF_BLOCKS += ("items", "columns")
EVENTS = {"sequence lengths", "steps", "steps by length", "items and pairs"}
EVENTS |= {"3 in a row", "4 in a row", "5 in a row"}
TENSORS = {
    "products": {"weights": COUNTS | LARGER, "probabilities": COUNTS | LARGER},
    "trees": dict.fromkeys(
        (
            *("weights", "parents", "tables", "parents of lists", "chances of items", "log mean weight"),
            *(f"{block}: {part}" for block in BLOCKS for part in OF_BLOCKS),
        ),
        BLOCKS,
    ),
    "vae": {
        "parameters": {"norms", "gradients", "mean embedding"} | COUNTS,
        "weights": {"cluster sizes", "class sizes"} | COUNTS,
        "points": COUNTS,
        "point_shares": COUNTS,
    },
    "rbm": {
        "parameters": {"norms", "gradients", "cluster profiles", "item counts", "record lengths"},
        "weights": {"cluster sizes"},
        "chains": {"norms", "gradients"},
    },
    # The last tilt reads all noisy sums, and the chains are fitted to a pool that is tilted to most of them.
    "sequences": {"weights": EVENTS, "chances": EVENTS, "ceiling": EVENTS}
    | {f"{part}: {name}": EVENTS for part in ("theta", "limit") for name in EVENTS}
    | {f"cells: {order} in a row": EVENTS for order in (3, 4, 5)}
    | {"classes: steps by length": {"sequence lengths", "steps"}},
    "image": {"class.shares": {"class sizes"}}
    | {
        name: {"mean embedding"}
        for name in (
            *("layer1.weight", "layer2.weight", "output.bias", "output.weight", "warp.scale"),
            *(f"norm{layer}.{part}" for layer in (1, 2) for part in ("gain", "mean", "shift", "variance")),
        )
    },
}
CERTIFICATE = {
    "format": PUBLIC,
    "epsilon": "function of the plan",
    "delta": PUBLIC,
    "unit": PUBLIC,
    "records": PUBLIC,
    "planned": "the plan",
    "mechanisms": "the plan",
    "accountant": PUBLIC,
    "randomness": PUBLIC,
    "private": PUBLIC,
    "software": PUBLIC,
    "model": "settings of the plan",
    "files": "function of the other files",
    "warnings": PUBLIC,
    "statements": PUBLIC,
    "epsilon_replace_one": "function of the plan",
    "odds": "function of the plan",
    "about": PUBLIC,
    "ledger": PUBLIC,
    "adjacency": PUBLIC,
    "plan": "settings of the plan",
}
CASES = [
    pytest.param("products", SETS, {}, id="products"),
    pytest.param("products", TABLE, {}, id="products-table"),
    pytest.param("trees", COLUMNS, {}, id="trees"),
    pytest.param("trees", TABLE, {}, id="trees-list"),
    pytest.param("vae", SETS, {"clusters": 2, "sampling_rate": 0.3}, id="vae"),
    pytest.param("vae", TABLE, {"clusters": 2, "sampling_rate": 0.3}, id="vae-table"),
    pytest.param("vae", IMAGES, BY_LABEL, id="vae-images"),
    pytest.param("rbm", SETS, {"clusters": 2, "sampling_rate": 0.3}, id="rbm"),
    pytest.param("image", IMAGES, {}, id="image"),
    pytest.param("sequences", CLICKS, {}, id="sequences"),
]


def _certificate(plan, architecture):
    return dpgm.Certificate(
        epsilon=1.0,
        delta=plan.delta,
        unit="row",
        records=plan.records,
        planned=plan.mechanisms,
        mechanisms=plan.mechanisms,
        accountant="a",
        randomness="b",
        private=False,
        software="c",
        model=architecture,
        files={},
    )


def _write(gateway, plan, domain, path):
    generator = fit_generator(gateway, plan, domain, draws=torch.Generator().manual_seed(1), context=RunContext())
    Release(domain, generator, _certificate(plan, generator.architecture)).save(path)


@pytest.mark.parametrize(("model", "domain", "settings"), CASES)
def test_every_number_written_maps_to_a_mechanism_or_a_public_input(tmp_path, model, domain, settings):
    plan = tiny_plan(model, domain, 40, **settings)
    traced = TraceGateway(some_records(domain, 40), randomness=SeededRandomness(0), allowance=plan.mechanisms)
    _write(traced, plan, domain, tmp_path / "live")
    played = PlaybackGateway(traced.tape, randomness=SeededRandomness(0), allowance=plan.mechanisms)
    _write(played, plan, domain, tmp_path / "played")

    files = {path.name: path.read_bytes() for path in (tmp_path / "live").iterdir()}
    assert set(files) == {
        "model.safetensors",
        "domain.json",
        "measurements.parquet",
        "certificate.json",
        "certificate.html",
        "README.md",
    }
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "played").iterdir()}

    ran = {mechanism.name for mechanism in traced.spent}
    assert ran == {mechanism.name for mechanism in plan.mechanisms}
    tensors = load_file(tmp_path / "live" / "model.safetensors")
    assert model != "image" or set(tensors) == set(TENSORS["image"])
    for name in tensors:
        assert name in TENSORS[model], f"the tensor {name!r} is not traced to any mechanism"
        assert TENSORS[model][name] & ran, f"the tensor {name!r} is traced to mechanisms that did not run"
    for name in json.loads(files["certificate.json"]):
        assert name in CERTIFICATE, f"the certificate's {name!r} is not traced to anything"
    assert set(json.loads(files["domain.json"])) <= {"fields", "label", "format"}


def test_what_a_fit_says_on_the_terminal_does_not_depend_on_the_rows(tmp_path, capsys):
    """Two files of equal size with nothing else in common: the same words."""
    import re

    import dpgm.cli.fitting  # noqa: F401
    from dpgm.cli.app import run as run_command

    printed = []
    for seed in (1, 2):
        path = tmp_path / f"data{seed}.npz"
        some_records(SETS, 60, seed=seed).write(path)
        code = run_command(["fit", str(path), "--epsilon", "1", "--out", str(tmp_path / f"release{seed}")])
        assert code == 0
        captured = capsys.readouterr()
        printed.append(
            re.sub(r"\d+(?=[/ .,:]|$)", "#", (captured.out + captured.err).replace(f"release{seed}", "R"))
        )
    assert printed[0] == printed[1]
