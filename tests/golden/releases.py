"""Seeded fits of every family, small enough to take seconds in all, and the digests of what they release.

python tests/golden/releases.py            shows which digests differ from the recorded ones
python tests/golden/releases.py --write    records them anew; say in the commit why they changed
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgm.data.domain import Categorical, Domain, Image, ItemSet, Numeric
from dpgm.data.records import Records
from dpgm.images.rules import IMAGE_RULES as IMAGE_RULES
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.products.rules import PRODUCT_RULES
from dpgm.strategy.settings import Config
from dpgm.synthesis.synthesizer import Synthesizer

sys.path.append(str(Path(__file__).parents[1] / "support"))  # where this runs as a script
from synthesis_data import CLICKS, FEW_CHAINS, SHORT_TREES, small_plan, some_sequences

RECORDED = Path(__file__).parent / "digests.json"

# A tenth of the steps of a fit to moments; where the rules are kept in the settings of a family.
SHORT_RULES = replace(PRODUCT_RULES, fit=replace(PRODUCT_RULES.fit, steps=60, steps_narrow=200, steps_table=100))
SHORT = {"products": "rules", "vae": "products", "rbm": "products"}

FEW = Domain.of_items(12)
MIDDLING = Domain.of_items(26)
MANY = Domain.of_items(45)
TABLE = Domain(
    (
        ItemSet("bought", tuple("abcdef")),
        Categorical("region", ("n", "s", "w")),
        Numeric("age", 0, 100, 5, integer=True),
    )
)
TREE_TABLE = Domain(
    (
        Categorical("region", ("n", "s", "w")),
        Numeric("age", 0, 100, 12, integer=True, missing=True),
        Numeric("weight", 0, 200, 9),
        Categorical("smokes", ("no", "yes")),
    ),
    label="smokes",
)
WIDE_TABLE = Domain(tuple(Categorical(f"column {at}", tuple(range(3 + at % 3))) for at in range(9)))
IMAGES = Domain((Image("image", 7, 6), Categorical("label", (0, 1, 2))), label="label")


def some_records(domain: Domain, count: int, dense: float = 0.0) -> Records:
    """Random records: items by popularity, long and short records, columns that follow the first one."""
    rng = np.random.default_rng(len(domain.fields) + count)
    rows = []
    for _ in range(count):
        row: list[int] = []
        level = rng.integers(3)
        for block in domain.blocks:
            if block.softmax:
                row.append(block.start + int((level + rng.integers(2)) % block.width))
            else:
                chance = np.maximum((0.5 + 0.3 * level) / (1 + np.arange(block.width) ** 0.7), dense)
                row += (block.start + np.flatnonzero(rng.random(block.width) < chance)).tolist()
        rows.append(row)
    return Records.from_lists(rows, domain)


def _fit(config: Config, records: Records, **fewer: Any) -> Synthesizer:
    """A fit of a plan with `fewer` steps (or smaller networks) than planned by default."""
    if config.model == "auto" and records.domain.table_columns and records.domain not in (IMAGES, CLICKS):
        fewer["rules"] = SHORT_TREES
    elif config.model in SHORT or (config.model == "auto" and records.domain not in (IMAGES, CLICKS)):
        fewer[SHORT.get(config.model, "rules")] = SHORT_RULES
    plan = small_plan(config, records, **fewer)
    return Synthesizer(config.epsilon, randomness=SeededRandomness(7), device="cpu").fit(records, plan=plan)


def _image() -> Synthesizer:
    few = replace(IMAGE_RULES.fit, steps=10, least_images=8, most_images=8)
    return _fit(Config(2.0), some_records(IMAGES, 300), rules=replace(IMAGE_RULES, fit=few))


def _sequences() -> Synthesizer:
    walks = some_sequences(CLICKS, 800, np.random.default_rng(0))
    return _fit(Config(4.0), walks, rules=FEW_CHAINS)


def _networks(model: str, preset: str, clusters: int, **fewer: Any) -> Synthesizer:
    config = Config(4.0, model=model, preset=preset, clusters=clusters)  # type: ignore[arg-type]
    return _fit(config, some_records(FEW, 300), **fewer)


CASES: Mapping[str, Callable[[], Synthesizer]] = {
    "few items": lambda: _fit(Config(1.0), some_records(FEW, 400)),
    "few items, quadruples": lambda: _fit(Config(8.0), some_records(FEW, 3000)),
    "sets": lambda: _fit(Config(1.0), some_records(MANY, 600)),
    "sets, triples": lambda: _fit(Config(10.0), some_records(MIDDLING, 4000)),
    "sets, dense": lambda: _fit(Config(4.0), some_records(MIDDLING, 600, dense=0.8)),
    "table": lambda: _fit(Config(1.0, model="products"), some_records(TABLE, 600)),
    "table, quadruples": lambda: _fit(Config(10.0, model="products"), some_records(TABLE, 6000)),
    "table, wide": lambda: _fit(Config(2.0, model="products"), some_records(WIDE_TABLE, 600)),
    "trees": lambda: _fit(Config(2.0), some_records(TREE_TABLE, 900)),
    "trees, ranks alone": lambda: _fit(Config(0.5), some_records(WIDE_TABLE, 90)),
    "trees, a list": lambda: _fit(Config(2.0), some_records(TABLE, 900)),
    "image": _image,
    "vae": lambda: _networks("vae", "default", 2, steps=30, hidden=(12,), latent=3, features=16),
    "vae, paper": lambda: _networks("vae", "paper", 2, hidden=(12,), features=16),
    "rbm": lambda: _networks("rbm", "default", 2, steps=30, hidden=(12,), features=16),
    "sequences": _sequences,
    "independent": lambda: _fit(Config(1.0, model="independent"), some_records(TABLE, 600)),
    "mwem": lambda: _fit(Config(2.0, model="mwem"), some_records(FEW, 600), iterations=6),
    "rbm, paper": lambda: _networks("rbm", "paper", 2, hidden=(12,), features=16),
}


def digests(name: str) -> dict[str, str]:
    """Of the mechanisms, the model and a sample of one case, computed on one thread."""
    with ExitStack() as stack:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        stack.callback(torch.set_num_threads, threads)
        fitted = CASES[name]()
        drawn = fitted.sample(300, seed=3)
    spent = [mechanism.to_json() for mechanism in fitted.certificate_.mechanisms]
    events = () if drawn.events is None else drawn.events.buffers()
    return {
        "mechanisms": _sha(json.dumps(spent, sort_keys=True).encode()),
        "model": _sha(*_bytes_of(fitted.generator_.state())),
        "sample": _sha(drawn.indptr.tobytes(), drawn.indices.tobytes(), *(one.tobytes() for one in events)),
    }


def machine() -> dict[str, str]:
    """What the last bits of floating-point sums depend on; `rounding` are those of products and functions here."""
    numbers = torch.linspace(-4, 4, 3000)
    square = numbers.reshape(50, 60)
    made = [
        square @ square.T,
        numbers.exp(),
        numbers.sigmoid(),
        torch.log_softmax(square, 1),
        numbers.abs().log1p(),
    ]
    made += [one.double().log1p().exp() for one in (numbers.abs(), square.abs())]
    return {
        "torch": torch.__version__.split("+")[0],
        "numpy": np.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "rounding": _sha(*(one.numpy().tobytes() for one in made)),
    }


def recorded() -> list[dict[str, Any]]:
    """The digests on file: of each machine they were made on."""
    return json.loads(RECORDED.read_text("utf-8"))  # type: ignore[no-any-return]


def digests_here() -> dict[str, dict[str, str]] | None:
    """The digests on file for a machine that rounds as this one does; None if there are none."""
    return next((one["digests"] for one in recorded() if one["machine"] == machine()), None)


def _bytes_of(tensors: Mapping[str, torch.Tensor]) -> list[bytes]:
    return [
        f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + tensor.contiguous().numpy().tobytes()
        for name, tensor in sorted(tensors.items())
    ]


def _sha(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:24]


if __name__ == "__main__":
    made = {name: digests(name) for name in CASES}
    before = digests_here() or {}
    for case, found in made.items():
        differ = [part for part in found if before.get(case, {}).get(part) != found[part]]
        print(f"{case}: {'differs in ' + ', '.join(differ) if differ else 'the same'}")
    if "--write" in sys.argv[1:]:
        # What was recorded elsewhere is of the code before, so it goes.
        RECORDED.write_text(json.dumps([{"machine": machine(), "digests": made}], indent=1) + "\n", "utf-8")
