"""MNIST: accuracy on real digits of a network trained on synthetic ones.

    python experiments/fidelity_images.py                    # device auto, test set, results/fidelity_images.csv
    python experiments/fidelity_images.py --split held-out   # for choosing settings: fit on 50,000, judged on 10,000
    python experiments/fidelity_images.py --preset paper     # the paper's settings: a mixture of VAEs, private SGD
    python experiments/fidelity_images.py --levels 8         # grey digits; judged on real ones of all 256 grey values
    python experiments/fidelity_images.py --smoke            # a minute, tiny

The default preset runs with torch and numpy alone. A fit and its judgement may take place on two machines:
`--keep FOLDER` stores the digits instead of judging them, `--judge-kept FOLDER` judges all that are there. Noise is
drawn from fixed seeds, so nothing it makes is private.
"""

import argparse
import csv
import dataclasses
import gzip
import json
import math
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from data_folder import DATA
from torch import nn

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.kinds.image import level_bits, nearest_levels
from dpgm.data.records import Records
from dpgm.images import fitting as image_fitting
from dpgm.images import measurement as image_measurement
from dpgm.images.features import ImageLayout
from dpgm.images.rules import IMAGE_RULES, ImageSettings
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness

DIGITS = DATA / "mnist"
RESULTS = Path(__file__).parent / "results"
EPSILONS = (1.0, 10.0)
SEEDS = (0, 1, 2)
DELTA = 1e-5
# mu of the Gaussian mechanism at (epsilon, 1e-5), from dpgm.privacy.calibration, for machines without SciPy
MU = {0.3: 0.0889834528, 1.0: 0.2680511232, 3.0: 0.7191174352, 10.0: 2.0004456204}
SYNTHETIC = 60_000
EPOCHS = 6
FIELDS = (
    "data", "preset", "epsilon", "delta", "seed", "device", "threads", "network", "features",
    "measure_s", "fit_s", "sample_s", "accuracy", "split",
)  # fmt: skip
Row = dict[str, object]
Digits = tuple[np.ndarray, np.ndarray]  # grey values (n, 784) in [0, 1], and labels


def digits(levels: int = 2) -> Domain:
    """Images of that many grey levels and their labels."""
    return Domain((Image("image", 28, 28, levels), Categorical("label", tuple(range(10)))), label="label")


DOMAIN = digits()


def load(part: str, folder: Path = DIGITS, levels: int = 2) -> Records:
    """Digits of `train` or `t10k`, grey values rounded to the nearest level; of two, a pixel is on above 127."""
    images, labels = _bytes(part, folder)
    domain = digits(levels)
    image = ImageLayout.of(domain).image
    bits = level_bits(nearest_levels(images, image), image)
    return Records.from_dense(np.concatenate([bits, np.eye(10, dtype=bool)[labels]], axis=1), domain)


def _bytes(part: str, folder: Path) -> Digits:
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.reshape(-1, 784), labels


def all_greys(part: str, folder: Path = DIGITS) -> Digits:
    """Digits with the grey values that they have in their file, 256 levels."""
    images, labels = _bytes(part, folder)
    return (images / 255).astype(np.float32), labels.astype(np.int64)


def digits_of(records: Records) -> Digits:
    """The same of records, of the levels that they have."""
    layout = ImageLayout.of(records.domain)
    return layout.pixels_of(records), layout.classes_of(records)


def noises(epsilon: float) -> dict[str, float]:
    spends = image_measurement.image_spends(DOMAIN, IMAGE_RULES.embedding)
    return {spend.name: math.ceil(1e5 / (MU[epsilon] * math.sqrt(spend.share))) / 1e5 for spend in spends}


def classifier() -> nn.Module:
    """Four convolutions and two dense layers; 99.3 % when trained on real binary digits."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.4), nn.Linear(3136, 256), nn.ReLU(), nn.Dropout(0.4), nn.Linear(256, 10),
    )  # fmt: skip


def accuracy(train: Digits, test: Digits, device: str, *, epochs: int = EPOCHS, seed: int = 0) -> float:
    """Accuracy on `test` of the classifier trained on `train`; no augmentation, nothing chosen on `test`."""
    torch.manual_seed(seed)

    def tensors(digits: Digits) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.from_numpy(digits[0]).reshape(-1, 1, 28, 28)
        return images.to(device), torch.from_numpy(digits[1]).to(device)

    images, labels = tensors(train)
    count = len(labels)
    network, batch = classifier().to(device), min(500, count)
    steps = epochs * (count // batch)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps + 1)
    for _ in range(epochs):
        order = torch.randperm(count, device=device)
        for start in range(0, count - batch + 1, batch):
            chosen = order[start : start + batch]
            with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
                loss = nn.functional.cross_entropy(network(images[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    network.eval()
    images, labels = tensors(test)
    with torch.no_grad():
        right = sum(
            int((network(a).argmax(1) == b).sum())
            for a, b in zip(images.split(1000), labels.split(1000), strict=True)
        )
    return right / len(labels)


def default_preset(train: Records, epsilon: float, seed: int, device: str, count: int) -> tuple[Row, Records]:
    """The image generator matched to a noisy mean embedding: what was done, and synthetic digits."""
    gateway = Gateway(train, randomness=SeededRandomness(seed))
    draws = torch.Generator().manual_seed(seed)
    start = time.perf_counter()
    settings = ImageSettings()
    domain = train.domain
    measured = image_measurement.measure_images(gateway, domain, noises(epsilon), settings, device=device)
    middle = time.perf_counter()
    rule = image_fitting.ImageFitSettings.of(domain, device, IMAGE_RULES.fit)
    fitted = image_fitting.fit_images(measured, domain, rule, generator=draws, device=device)
    end = time.perf_counter()
    synthetic = fitted.to(device).sample(count, generator=draws)
    row: Row = {
        "network": fitted.architecture["network"], "features": measured.design.features,
        "measure_s": round(middle - start, 1), "fit_s": round(end - middle, 1),
        "sample_s": round(time.perf_counter() - end, 1),
    }  # fmt: skip
    return row, synthetic


def paper_preset(train: Records, epsilon: float, seed: int, device: str, count: int) -> tuple[Row, Records]:
    """The paper's mixture of VAEs by private SGD; pixels and label are one record (needs the whole package)."""
    from dpgm import Synthesizer

    start = time.perf_counter()
    model = Synthesizer(epsilon, DELTA, preset="paper", device=device, randomness=SeededRandomness(seed)).fit(train)
    end = time.perf_counter()
    synthetic = model.sample(count, seed=seed)
    row: Row = {
        "network": f"{model.plan_.settings.family.clusters} VAEs", "features": "", "measure_s": "",
        "fit_s": round(end - start, 1), "sample_s": round(time.perf_counter() - end, 1),
    }  # fmt: skip
    return row, synthetic


PRESETS = {"default": default_preset, "paper": paper_preset}


def run(
    train: Records, epsilon: float, seed: int, device: str, *, preset: str = "default", count: int = SYNTHETIC
) -> tuple[Row, Records]:
    """One fit at one epsilon and seed: a row of the table without its accuracy, and the synthetic digits."""
    told, synthetic = PRESETS[preset](train, epsilon, seed, device, count)
    row: Row = {
        "data": data_name(train), "preset": preset, "epsilon": epsilon, "delta": DELTA, "seed": seed, "device": device,
        "threads": torch.get_num_threads(),
    }  # fmt: skip
    return row | told, synthetic


def data_name(train: Records) -> str:
    """What the data are called in the table."""
    levels = ImageLayout.of(train.domain).image.levels
    return "mnist" if levels == 2 else f"mnist, {levels} grey levels"


def keep(folder: Path, row: Row, drawn: Records) -> None:
    """Store synthetic digits and their row, to be judged elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{row['preset']}_{row['split']}_epsilon{row['epsilon']:g}_seed{row['seed']}.npz"
    bits = np.packbits(drawn.to_dense(np.uint8), axis=1)
    levels = ImageLayout.of(drawn.domain).image.levels
    np.savez_compressed(path, bits=bits, levels=np.array(levels), row=np.array(json.dumps(row)))


def kept(folder: Path) -> Iterator[tuple[Row, Records]]:
    """All digits that `keep` stored, with their rows."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as stored:
            domain = digits(int(stored["levels"]))
            dense = np.unpackbits(stored["bits"], axis=1, count=domain.width).astype(bool)
            yield json.loads(str(stored["row"])), Records.from_dense(dense, domain)


def append(table: Path, row: Row) -> None:
    """Add a row to the CSV, with a header when the file is new."""
    print(json.dumps(row), flush=True)
    new = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def write_grid(records: Records, path: Path, across: int = 20) -> None:
    """Ten rows of synthetic digits, one class a row, as a grey PNG (written by hand: no plotting library needed)."""
    images, classes = digits_of(records)
    images = images.reshape(-1, 28, 28)
    canvas = np.zeros((10 * 30, across * 30), dtype=np.uint8)
    for label in range(10):
        for place, number in enumerate(np.flatnonzero(classes == label)[:across]):
            canvas[label * 30 + 1 : label * 30 + 29, place * 30 + 1 : place * 30 + 29] = images[number] * 255
    raw = b"".join(b"\0" + line.tobytes() for line in 255 - canvas)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", canvas.shape[1], canvas.shape[0], 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


def judged_on(options: argparse.Namespace) -> Digits:
    """Real digits that no fit has seen: black and white like the synthetic ones, or of all grey values."""
    part, rows = ("t10k", slice(None)) if options.split == "test" else ("train", slice(50_000, 60_000))
    if options.levels > 2:
        images, labels = all_greys(part, options.data)
    else:
        images, labels = digits_of(load(part, options.data))
    return images[rows], labels[rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DIGITS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--preset", choices=list(PRESETS), default="default")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--judge", default=None, help="device of the classifier")
    parser.add_argument("--split", choices=["test", "held-out"], default="test")
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--seed", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="passes of the classifier")
    parser.add_argument("--keep", type=Path, help="store the digits in this folder instead of judging them")
    parser.add_argument("--judge-kept", type=Path, help="judge the digits of this folder; nothing is fitted")
    parser.add_argument("--levels", type=int, default=2, help="grey levels; two are black and white")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    judge = options.judge or device
    train, test = load("train", options.data, options.levels), judged_on(options)
    train = train if options.split == "test" else train.rows(0, 50_000)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.smoke:
        rule = image_fitting.ImageFitSettings.of
        short = lambda *given: dataclasses.replace(rule(*given), steps=20)  # noqa: E731
        with mock.patch.object(image_fitting.ImageFitSettings, "of", short):
            row, drawn = run(train.rows(0, 2000), 1.0, 0, device, count=1000)
        keep(options.out, row | {"split": "smoke"}, drawn)
        for row, drawn in kept(options.out):
            few = (test[0][:500], test[1][:500])
            print(json.dumps(row | {"accuracy": accuracy(digits_of(drawn), few, judge, epochs=1)}))
        return 0
    table = options.out / "fidelity_images.csv"
    if options.judge_kept:
        for row, drawn in kept(options.judge_kept):
            if row["split"] == options.split:
                found = accuracy(digits_of(drawn), test, judge, epochs=options.epochs)
                append(table, row | {"accuracy": round(found, 4)})
        return 0
    for epsilon in options.epsilon:
        for seed in options.seed:
            row, drawn = run(train, epsilon, seed, device, preset=options.preset)
            row["split"] = options.split
            if options.keep:
                keep(options.keep, row, drawn)
                continue
            found = accuracy(digits_of(drawn), test, judge, epochs=options.epochs)
            append(table, row | {"accuracy": round(found, 4)})
            if seed == options.seed[0]:
                name = device if options.preset == "default" else options.preset
                name += "" if options.levels == 2 else f"_{options.levels}_levels"
                write_grid(drawn, options.out / f"fidelity_images_{name}_epsilon{epsilon:g}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
