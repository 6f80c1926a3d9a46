"""The picture of the README: real people beside synthetic ones, from the folder that `make demo` writes.

    python tools/readme_picture.py [--demo demo] [--out docs/images/real-and-synthetic.png]

The "real" people of the demo are simulated, so the picture shows nobody. Needs the extra `experiments` (matplotlib).
"""

import argparse
from pathlib import Path

import numpy as np

import dpgm

PLACES = 30  # the most visited places of the real data
LONGEST = 20  # longer records share the last bar


def shares_together(records: dpgm.Records, places: np.ndarray) -> np.ndarray:
    """Share of the records that hold both places, for every pair; the diagonal is left empty."""
    held = records.to_scipy().tocsc()[:, places].astype(np.int64)
    together = (held.T @ held).toarray() / len(records)
    np.fill_diagonal(together, np.nan)
    return together


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw real and synthetic records of the demo side by side.")
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--out", type=Path, default=Path("docs/images/real-and-synthetic.png"))
    arguments = parser.parse_args()

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    domain = dpgm.load_domain(arguments.demo / "release" / "domain.json")
    real, synthetic = (
        dpgm.read_records(arguments.demo / name, domain=domain) for name in ("people.parquet", "synthetic.parquet")
    )
    counts = np.asarray(real.to_scipy().sum(axis=0)).ravel()
    places = np.argsort(-counts)[:PLACES]
    pictures = [shares_together(records, places) for records in (real, synthetic)]
    brightest = np.nanquantile(pictures[0], 0.98)

    figure, panels = plt.subplots(1, 3, figsize=(9, 3.1), gridspec_kw={"width_ratios": [1, 1, 1.15]})
    for panel, picture, title in zip(panels, pictures, ("real", "synthetic"), strict=False):
        panel.imshow(picture, vmin=0, vmax=brightest, cmap="magma")
        panel.set_title(f"{title}: places visited together", fontsize=9)
        panel.set_xticks([])
        panel.set_yticks([])
    bars = np.arange(LONGEST + 1)
    for records, title, shift in ((real, "real", -0.2), (synthetic, "synthetic", 0.2)):
        lengths = np.bincount(np.minimum(records.lengths, LONGEST), minlength=LONGEST + 1) / len(records)
        panels[2].bar(bars + shift, lengths, width=0.4, label=title)
    panels[2].set_title("places per person", fontsize=9)
    panels[2].tick_params(labelsize=7)
    panels[2].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out, dpi=100)


if __name__ == "__main__":
    main()
