"""Tables of the README, docs/fidelity.md and docs/fidelity-images.md, and the figure, from the CSV files.

    python experiments/fidelity_report.py

Nothing is typed by hand; `tests/experiments/test_results_tables.py` fails if a page and the CSV files disagree.

A marker in a page names a function of `TABLES`: what stands between `<!-- table: NAME -->` and `<!-- end -->` is
replaced.
"""

import re
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from fidelity import ANY, PAPER, POPULAR, RESULTS, TABLE, Row, read

PAGES = [
    Path(__file__).parents[1] / name
    for name in (
        "README.md",
        "docs/evaluation.md",
        "docs/fidelity.md",
        "docs/fidelity-images.md",
        "experiments/notes/fidelity.md",
    )
]
SETS = {
    "msnbc": "msnbc, 990k x 17",
    "msweb": "msweb, 32.7k x 294",
    "retail": "retail, 85k x 1000",
    "tw_ny": "tw_ny, 28.7k x 342",
    "tw_ny 1303": "tw_ny, 29.6k x 1303",
    "transit": "simulated transit, 1.2M x 342",
    "nltcs": "nltcs, 21.6k x 16",
    "msweb16": "msweb, top 16",
    "retail16": "retail, top 16",
    "plants": "plants, 23.2k x 69",
    "accidents": "accidents, 17.0k x 111",
}
# Sets of other origin, in `fidelity_other.csv`; * a part of the set.
OTHER = {
    "h_bms2": "BMS-WebView-2, 71.8k x 1000",
    "h_t10": "T10I4D100K, 100k x 870",
    "h_kosarak": "kosarak*, 35.5k x 1000",
    "h_kosarek": "kosarek*, 11.1k x 190",
    "h_groceries": "groceries, 9.8k x 169",
    "h_tretail": "tretail*, 7.3k x 135",
    "h_kdd": "kdd*, 19.9k x 64",
    "h_book": "book*, 2.9k x 500",
    "h_baudio": "baudio, 20.0k x 100",
    "h_bnetflix": "bnetflix, 20.0k x 100",
    "h_jester": "jester, 14.1k x 100",
    "h_rcv1": "rcv1*, 10.0k x 150",
    "h_ocr_letters": "ocr_letters*, 20.0k x 128",
    "h_pumsb_star": "pumsb_star, 16.3k x 163",
    "h_mushrooms": "mushrooms, 8.1k x 112",
    "h_connect4": "connect4*, 20.0k x 126",
    "h_adult": "adult, one-hot*, 6.4k x 123",
    "h_dna": "dna, 3.2k x 180",
    "h_lastfm": "lastfm, 1.9k x 500",
    "h_tmovie": "tmovie*, 1.6k x 500",
}
MAIN = (*POPULAR, "lengths")
ERRORS = (*POPULAR, *ANY, *PAPER, "together", "lengths")
BESIDE = ("ours", "independent", "mst", "aim", "mwem", "paper", "private sgd")
EPSILONS = (0.3, 1.0, 3.0, 10.0)
ALLOWED = 1.1  # an error may be this much above that of independent marginals


class Runs:
    """The rows of the CSV, asked for means over seeds."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def values(self, data: str, method: str, epsilon: float, delta_records: int, metric: str) -> list[float]:
        """One figure a seed."""
        wanted = {"data": data, "method": method, "delta_records": str(delta_records)}
        return [
            float(row[metric])
            for row in self.rows
            if row[metric] and float(row["epsilon"]) == epsilon and all(row[k] == v for k, v in wanted.items())
        ]

    def mean(self, data: str, method: str, epsilon: float, delta_records: int, metric: str) -> float | None:
        """Mean over seeds; None if there is no run."""
        found = self.values(data, method, epsilon, delta_records, metric)
        return float(np.mean(found)) if found else None

    def cell(self, data: str, method: str, epsilon: float, delta_records: int, metrics: Sequence[str]) -> str:
        """Means of several metrics with slashes between, and the number of seeds where it is not 3."""
        means = [self.mean(data, method, epsilon, delta_records, metric) for metric in metrics]
        if all(mean is None for mean in means):
            return ""
        seeds = max(len(self.values(data, method, epsilon, delta_records, metric)) for metric in metrics)
        told = "/".join("-" if mean is None else short(mean) for mean in means)
        return told if seeds == 3 else f"{told} ({seeds})"


def short(value: float) -> str:
    """Three decimals without the leading 0."""
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.2f}"


def lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def sets(runs: Runs) -> str:
    """Popular queries and lengths at epsilon = 1, delta = 1/N."""
    methods = [m for m in BESIDE if any(runs.cell(data, m, 1.0, 1, MAIN) for data in SETS)]
    rows = [[title, *(runs.cell(data, m, 1.0, 1, MAIN) for m in methods)] for data, title in SETS.items()]
    return lines(["data", *methods], rows)


def more(runs: Runs) -> str:
    """The other metrics at epsilon = 1, delta = 1/N."""
    rows = []
    for data, title in SETS.items():
        for method in ("ours", "independent", "mst", "aim", "mwem"):
            groups = [runs.cell(data, method, 1.0, 1, metrics) for metrics in (ANY, PAPER, ("together",))]
            if any(groups):
                rows.append([title, method, *groups])
    return lines(["data", "method", "any of 2/3/4", "paper's 20/40/60/80/100 %", "together"], rows)


def ratios(runs: Runs) -> str:
    """Our errors divided by those of independent marginals, at epsilon = 1, delta = 1/N."""
    rows = []
    for data, title in SETS.items():
        found = []
        for metric in ERRORS:
            ours, theirs = (runs.mean(data, m, 1.0, 1, metric) for m in ("ours", "independent"))
            if ours is None or theirs is None:
                found.append("")
            elif theirs == 0:
                found.append("=" if ours == 0 else f"{ours:.4f} against 0")
            else:
                ratio = ours / theirs
                found.append(f"**{ratio:.2f}**" if ratio > ALLOWED else f"{ratio:.2f}")
        if any(found):
            rows.append([title, *found])
    return lines(["data", *ERRORS], rows)


def other(runs: Runs) -> str:
    """Popular queries and lengths of the sets of other origin, and where we are more than 10 % behind.

    "Before" are the defaults that were chosen without them.
    """
    rows = []
    for data, title in OTHER.items():
        cells = [runs.cell(data, m, 1.0, 1, MAIN) for m in ("ours before", "ours", "independent", "mst")]
        if not cells[1]:
            continue
        worse = []
        for method in ("independent", "mst"):
            for metric in ERRORS:
                ours, theirs = (runs.mean(data, m, 1.0, 1, metric) for m in ("ours", method))
                if ours is not None and theirs is not None and ours > ALLOWED * theirs:
                    worse.append(f"{metric} {ours:.4f} ({method} {theirs:.4f})")
        rows.append([title, *cells, ", ".join(worse)])
    return lines(["data", "ours before", "ours", "independent", "mst", "more than 10 % behind"], rows)


def behind(runs: Runs) -> str:
    """Where another method has a smaller mean error than ours at epsilon = 1, delta = 1/N, and pairs against MST."""
    found = []
    for data, title in SETS.items():
        for method in ("independent", "mst", "aim", "mwem"):
            cells = []
            for metric in ERRORS:
                ours, theirs = (runs.mean(data, m, 1.0, 1, metric) for m in ("ours", method))
                if ours is not None and theirs is not None and theirs < ours:
                    cells.append(f"{metric} {theirs:.4f} ({ours:.4f})")
            if cells:
                found.append([title, method, ", ".join(cells)])
    return lines(["data", "method", "its error (ours)"], found)


def pairs(runs: Runs) -> str:
    """MST's error of popular pairs divided by ours, at epsilon = 1, delta = 1/N."""
    rows = []
    for data, title in SETS.items():
        ours, theirs = (runs.mean(data, method, 1.0, 1, "pop2") for method in ("ours", "mst"))
        if ours and theirs:
            rows.append([title, f"{theirs / ours:.2f}"])
    return lines(["data", "MST / ours, pairs"], rows)


def sweep(runs: Runs) -> str:
    """Popular queries and lengths by epsilon, delta = 1/(10 N)."""
    rows = []
    for data, title in SETS.items():
        for method in BESIDE:
            cells = [runs.cell(data, method, epsilon, 10, MAIN) for epsilon in EPSILONS]
            if sum(map(bool, cells)) > 1:
                rows.append([title, method, *cells])
    return lines(["data", "method", *(f"{epsilon:g}" for epsilon in EPSILONS)], rows)


def rises(runs: Runs) -> str:
    """Where our mean error rises from one epsilon to the next, delta = 1/(10 N)."""
    found = []
    for data, title in SETS.items():
        for metric in ERRORS:
            means = [(e, runs.mean(data, "ours", e, 10, metric)) for e in EPSILONS]
            known = [(epsilon, mean) for epsilon, mean in means if mean is not None]
            for (low, before), (high, after) in pairwise(known):
                if after > before + max(0.0005, 0.05 * before):
                    found.append([title, metric, f"{low:g} to {high:g}", f"{short(before)} to {short(after)}"])
    return lines(["data", "metric", "epsilon", "error"], found) if found else "None."


def tables(runs: Runs) -> str:
    """Adult, delta = 1/N and 1/(10 N)."""
    rows = []
    for delta_records, told in ((1, "1/N"), (10, "1/(10 N)")):
        for epsilon in EPSILONS:
            for method in ("ours", "mst dpmm", "private sgd", "paper", "independent"):
                cells = [runs.mean("adult", method, epsilon, delta_records, metric) for metric in TABLE]
                if any(cell is not None for cell in cells):
                    shown = ["" if c is None else short(c) if at < 2 else f"{c:.1%}" for at, c in enumerate(cells)]
                    seeds = len(runs.values("adult", method, epsilon, delta_records, "tv2"))
                    rows.append([f"{epsilon:g}", told, method, str(seeds), *shown])
    header = ["epsilon", "delta", "method", "seeds", "1-way TV", "2-way TV", "logistic", "forest", "naive Bayes"]
    return lines(header, rows)


def triples(runs: Runs) -> str:
    """Adult and bank marketing: columns, pairs, triples, boosting, raw numbers; means over seeds, or the worst one."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in read(RESULTS / "tables.csv"):
        groups.setdefault((row["data"], row["bins"]), []).append(row)
    told = []
    for (data, bins), rows in groups.items():
        distances = [f"{np.mean([float(row[name]) for row in rows]):.4f}"[1:] for name in ("tv1", "tv2", "tv3")]
        learnt = ["/".join(f"{100 * float(row[name]):.1f}" for row in rows) for name in ("accuracy", "auc")]
        worst = [
            f"{max(float(row[name]) for row in rows):.{places}f}" if rows[0][name] else ""
            for name, places in (("mode", 1), ("median", 3), ("mean", 3))
        ]
        seeds = ", ".join(row["seed"] for row in rows)
        told.append([data, bins, seeds, *distances, *learnt, *worst])
    header = [
        "data",
        "bins",
        "seeds",
        "columns",
        "pairs",
        "triples",
        "accuracy %",
        "AUC %",
        "mode",
        "median",
        "mean",
    ]
    return lines(header, told)


def images(runs: Runs) -> str:
    """MNIST: accuracies on the test set by seed, and on held-out digits."""
    groups: dict[tuple[str, ...], dict[str, float]] = {}
    for row in read(RESULTS / "fidelity_images.csv"):
        network = f"{row['preset']}, {row['network']}"
        judged = row["split"] + row["data"].removeprefix("mnist")  # grey levels, where there are more than two
        group = (judged, network, row["device"], f"{float(row['epsilon']):g}")
        groups.setdefault(group, {})[row["seed"]] = float(row["accuracy"])
    rows = []
    for group in sorted(groups, key=lambda g: (g[0], g[1], g[2], float(g[3]))):
        found = groups[group]
        told = [f"{found[seed]:.2%}" if seed in found else "" for seed in ("0", "1", "2")]
        rows.append([*group, *told, f"{np.mean(list(found.values())):.2%}"])
    return lines(["judged on", "preset, network", "device", "epsilon", "seed 0", "seed 1", "seed 2", "mean"], rows)


def k_marginals(runs: Runs) -> str:
    """Adult and bank marketing by method: SDNist's score of pairs and triples of columns, by seed."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in read(RESULTS / "k_marginals.csv"):
        groups.setdefault((row["data"], row["method"]), []).append(row)
    best_first = sorted(groups, key=lambda group: (group[0], -float(groups[group][0]["k3"])))
    told = [[*group, *(" ".join(row[k] for row in groups[group]) for k in ("k2", "k3"))] for group in best_first]
    return lines(["data", "method", "pairs", "triples"], told)


def relations(runs: Runs) -> str:
    """Tables of which a relation is known or measured: every figure, one value a seed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in read(RESULTS / "table_relations.csv"):
        groups.setdefault((row["table"], row["figure"]), []).append(row["value"])
    told = [[*group, " ".join(values)] for group, values in groups.items() if group[1] != "seconds"]
    return lines(["table", "figure", "by seed"], told)


def fakes(runs: Runs) -> str:
    """Verdicts on fakes by number of rows; one table for each kind."""
    found = read(RESULTS / "verdict_fakes.csv")
    told = []
    for count in sorted({int(row["rows"]) for row in found}):
        rows = [row for row in found if int(row["rows"]) == count]
        kinds, tables = (len({row[key] for row in rows}) for key in ("kind", "table"))
        close = sum(row["grade"] == "close" for row in rows)
        named = sum(row["named"] == "1" for row in rows)
        told.append([f"{count:,}", *map(str, (kinds, tables, len(rows), close, named))])
    return lines(["rows", "kinds", "tables", "fakes", "called close", "cause named"], told)


def fresh(runs: Runs) -> str:
    """Verdicts on fresh samples of the same population, by table."""
    found = read(RESULTS / "verdict_fresh.csv")
    told = []
    for table in dict.fromkeys(row["table"] for row in found):
        rows = [row for row in found if row["table"] == table]
        told.append(
            [table, f"{int(rows[0]['rows']):,}", str(len(rows)), str(sum(row["grade"] == "close" for row in rows))]
        )
    return lines(["table", "rows", "fresh samples", "called close"], told)


def _mean_of(file: str, column: str, **wanted: str) -> str:
    """Mean of one column over the rows of a CSV file that match, as a percentage; empty if there are none."""
    rows = [row for row in read(RESULTS / file) if all(row[key] == value for key, value in wanted.items())]
    found = [float(row[column]) for row in rows]
    return f"{np.mean(found):.1%}" if found else ""


def summary(runs: Runs) -> str:
    """One line per data set for the README: pairs of items, pairs of columns, accuracy; epsilon = 1."""
    mixture = {
        "msweb": "msweb",
        "tw_ny": "tw_ny",
        "transit": "transit 1200000",
    }  # as `paper_networks.csv` calls them
    rows = []
    for data in ("msnbc", "retail", "msweb", "tw_ny", "transit"):
        means = [runs.mean(data, method, 1.0, 1, "pop2") for method in ("ours", "independent", "mst")]
        shown = ["" if mean is None else f"{mean:.1%}" for mean in means]
        paper = _mean_of("paper_networks.csv", "pop2", data=mixture.get(data, ""), name="VAE k = 10, epsilon 1")
        rows.append([SETS[data], "relative error of popular pairs", *shown, paper])
    for metric, title in (("tv2", "distance of pairs of columns"), ("logistic", "accuracy of a classifier")):
        means = [runs.mean("adult", method, 1.0, 1, metric) for method in ("ours", "independent", "mst dpmm")]
        rows.append(["Adult, 32.6k x 15 columns", title, *("" if m is None else f"{m:.1%}" for m in means), ""])
    default = {"data": "mnist", "preset": "default", "split": "test", "epsilon": "1.0"}
    gpu, cpu = (_mean_of("fidelity_images.csv", "accuracy", device=d, **default) for d in ("cuda", "cpu"))
    paper = _mean_of("paper_networks.csv", "accuracy", name="VAE with clustering, epsilon 1.74")
    rows.append(["MNIST, 60k images", "accuracy of a classifier", f"{gpu} (CPU: {cpu})", "", "", paper])
    return lines(["data", "measure", "dpgm", "independent counts", "MST", "the paper's mixture"], rows)


TABLES = {
    "summary": summary,
    "sets": sets,
    "more": more,
    "ratios": ratios,
    "behind": behind,
    "pairs": pairs,
    "sweep": sweep,
    "rises": rises,
    "other": other,
    "adult": tables,
    "triples": triples,
    "images": images,
    "k_marginals": k_marginals,
    "relations": relations,
    "fakes": fakes,
    "fresh": fresh,
}


def rewrite(page: str, runs: Runs) -> str:
    """The page with every marked table made anew."""

    def made(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]](runs)}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", made, page, flags=re.DOTALL)


def plot(runs: Runs, path: Path) -> None:
    """Errors against epsilon (delta = 1/(10 N)): a row a data set, a column a metric."""
    from matplotlib import pyplot as plt

    names = [data for data in SETS if sum(bool(runs.cell(data, "ours", e, 10, MAIN)) for e in EPSILONS) > 1]
    metrics = (*POPULAR, "any3", "lengths")
    size = (2.1 * len(metrics), 1.7 * len(names))
    figure, panels = plt.subplots(len(names), len(metrics), figsize=size, squeeze=False, sharex=True)
    for panel, (name, metric) in zip(panels.flat, [(n, m) for n in names for m in metrics], strict=True):
        for method in ("ours", "independent", "mst", "aim", "mwem"):
            means = [(e, runs.mean(name, method, e, 10, metric)) for e in EPSILONS]
            points = [(epsilon, max(mean, 1e-4)) for epsilon, mean in means if mean is not None]
            if points:
                panel.loglog(*zip(*points, strict=True), "o-", label=method, markersize=3, linewidth=1)
        panel.tick_params(which="both", labelsize=6)
        if metric == metrics[0]:
            panel.set_ylabel(name, fontsize=8)
        if name == names[0]:
            panel.set_title(metric, fontsize=8)
        if name == names[-1]:
            panel.set_xlabel("epsilon", fontsize=7)
    panels[0][0].legend(fontsize=5)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def all_runs() -> Runs:
    """Every committed run on item sets and tables."""
    return Runs([*read(RESULTS / "fidelity.csv"), *read(RESULTS / "fidelity_other.csv")])


def main() -> None:
    """Rewrite the pages and draw the figure."""
    runs = all_runs()
    for page in PAGES:
        page.write_text(rewrite(page.read_text(), runs))
    plot(runs, RESULTS / "fidelity.png")
    shutil.copy(RESULTS / "fidelity.png", Path(__file__).parents[1] / "docs" / "images" / "fidelity.png")


if __name__ == "__main__":
    main()
