"""Table 1: records, items, largest and mean number of ones, of the paper's data and of what stands in for them.

MNIST is the paper's own; it says "binarised", but its figures are those of grey values divided by 255. CDR and TRANSIT
are private: ours are simulated with the same sizes. The last rows are public data of real people that other experiments
use.

    python experiments/dataset_table.py [--smoke]
"""

import gzip
from dataclasses import dataclass, replace

import fidelity_data
import numpy as np
from data_folder import DATA
from network_runs import Row, load_data
from paper_figures import CDR, TRANSIT, main, pyplot

PRINTED = {"MNIST": (60_000, 784, 311.69, 102.44), "CDR": (4_427_486, 1303, 422, 11.42)}
PRINTED |= {"TRANSIT": (1_200_000, 342, 57, 5.26)}


@dataclass(frozen=True)
class Config:
    """What is measured."""

    simulated: tuple[tuple[str, str], ...] = (("CDR", CDR), ("TRANSIT", TRANSIT))
    digits: bool = True
    real: tuple[str, ...] = ("msweb", "retail", "tw_ny", "msnbc")
    seed: int = 0


CONFIG = Config()
SMOKE = replace(CONFIG, simulated=(("TRANSIT", "transit 2000"),), digits=False, real=())


def run(config: Config) -> list[Row]:
    """One row per data set."""
    rows = []
    if config.digits:
        packed = gzip.decompress((DATA / "mnist/train-images-idx3-ubyte.gz").read_bytes())
        images = np.frombuffer(packed, np.uint8, offset=16).reshape(-1, 784)
        grey = images.sum(1, dtype=np.int64) / 255
        rows += [_row("MNIST, grey / 255", "MNIST", grey, 784)]
        rows += [_row("MNIST, binarised above 127", "MNIST", (images > 127).sum(1), 784)]
    for printed, name in config.simulated:
        records, _ = load_data(name, DATA)
        rows.append(_row(f"simulated {printed}", printed, records.lengths, records.width))
    for name in config.real:
        records = fidelity_data.load(name, DATA).records
        rows.append(_row(name, "", records.lengths, records.width))
    return rows


def _row(name: str, printed: str, lengths: np.ndarray, width: int) -> Row:
    row: Row = {"data": name, "records": len(lengths), "items": width}
    row |= {"longest": f"{lengths.max():.2f}", "mean": f"{lengths.mean():.2f}"}
    names = ("paper_records", "paper_items", "paper_longest", "paper_mean")
    return row | dict(zip(names, PRINTED.get(printed, ("",) * 4), strict=True))


def plot(rows):
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(11, 0.35 * len(rows) + 0.8))
    axis.axis("off")
    cells = [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    table = axis.table(cells, colLabels=list(rows[0]), loc="center", cellLoc="right")
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    return figure


if __name__ == "__main__":
    main("dataset_table", CONFIG, SMOKE, run, plot)
