"""What each section of the report shows, ready to be laid out."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dpgm.data.domain import Image
from dpgm.data.pictures import grey_values
from dpgm.data.records import Records
from dpgm.evaluation.evaluate import SYNTHETIC, Evaluation
from dpgm.evaluation.inputs import position_names
from dpgm.evaluation.marginals import field_codes
from dpgm.evaluation.verdict import percent
from dpgm.report.pictures import contact_sheet, heat_map, png_uri

MOST_BARS = 24
METHOD_NAMES = {SYNTHETIC: "synthetic data", "answer 0": "always answer 0"}
METHOD_CLASSES = {SYNTHETIC: "ours", "independent": "alone", "answer 0": "zero"}


def noun(evaluation: Evaluation) -> str:
    """What a position of a record is called."""
    return {"table": "value", "images": "pixel"}.get(evaluation.kind, "item")


def extent(evaluation: Evaluation) -> str:
    """How much a record holds."""
    fields = evaluation.real_sample.domain.fields
    if evaluation.kind == "table":
        return f"{len(fields):,} columns"
    pictures = [field for field in fields if isinstance(field, Image)]
    if pictures:
        levels = "" if pictures[0].levels == 2 else f" of {pictures[0].levels} grey levels"
        return f"images of {pictures[0].height} × {pictures[0].columns} pixels{levels}"
    return f"{evaluation.width:,} items" if evaluation.kind == "sets" else f"{len(fields)} fields"


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    value: str
    label: str
    note: str


def tiles(evaluation: Evaluation) -> list[Tile]:
    """The few figures worth seeing first."""
    tiles = []
    what = noun(evaluation)
    if evaluation.kind != "images":
        for length, label in ((1, f"error of one-{what} counts"), (2, f"error of two-{what} counts")):
            errors = evaluation.query_means(length)
            if errors:
                alone = errors.get("independent")
                note = "" if alone is None else f"{percent(alone)} if {what}s were independent"
                tiles.append(Tile(percent(errors[SYNTHETIC]), label, note))
    if evaluation.table is not None:
        note = f"{percent(evaluation.table.mean_one_way)} for single columns"
        tiles.append(Tile(percent(evaluation.table.mean_total_variation), "distance of column pairs", note))
    if evaluation.downstream:
        best = max(evaluation.downstream, key=lambda accuracy: accuracy.real)
        note = f"{percent(best.real)} when trained on real records"
        tiles.append(Tile(percent(best.synthetic), f"accuracy of a {best.model}", note))
    if evaluation.lengths is not None and evaluation.kind != "images":
        mean = f"{evaluation.lengths.synthetic_mean:.2f} items per record, real {evaluation.lengths.real_mean:.2f}"
        tiles.append(Tile(percent(evaluation.lengths.total_variation), "distance of record lengths", mean))
    if evaluation.frequent_sets is not None and len(tiles) < 4:
        note = f"of the {len(evaluation.frequent_sets.real)} most frequent sets are found"
        tiles.append(Tile(percent(evaluation.frequent_sets.recall), "frequent item sets", note))
    if evaluation.one_way is not None and evaluation.kind == "images":
        gap = evaluation.one_way.mean_difference
        tiles.append(Tile(percent(gap), "difference per pixel", "mean over all pixels, in share of images"))
    return tiles[:4]


def query_tables(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One table of bars per workload and reading."""
    what = noun(evaluation)
    titles = {
        ("popular", "all"): f"Records that hold all of the {what}s",
        ("popular", "any"): f"Records that hold any of the {what}s",
        ("paper", "all"): "The paper's random queries",
        ("yours", "all"): f"Your queries: all of the {what}s",
        ("yours", "any"): f"Your queries: any of the {what}s",
    }
    called = METHOD_NAMES | {"independent": f"independent {what}s"}
    tables = []
    for (workload, reading), title in titles.items():
        rows = [row for row in evaluation.queries if (row.workload, row.reading) == (workload, reading)]
        if not rows:
            continue
        largest = max(max(row.mean.values()) for row in rows)
        groups = []
        for row in rows:
            bars = [
                {
                    "method": called.get(name, name),
                    "kind": METHOD_CLASSES.get(name, "other"),
                    "value": percent(error),
                    "width": f"{max(0.4, 100 * error / largest) if largest else 0.4:.1f}",
                    "median": percent(row.median[name]),
                }
                for name, error in row.mean.items()
            ]
            groups.append(
                {"label": _query_label(row.workload, row.length, what), "queries": row.queries, "bars": bars}
            )
        note = PAPER_NOTE if workload == "paper" else ""
        main = (workload, reading) == ("popular", "all") or workload == "yours"
        tables.append({"title": title, "groups": groups, "note": note, "main": main})
    return tables


PAPER_NOTE = (
    "Random items, up to the length of the longest record. Nearly all of these counts are 0, so “always answer 0” "
    "looks excellent here: judge by the popular items above."
)


def _query_label(workload: str, length: str, what: str) -> str:
    if workload == "popular":
        return f"1 {what}" if length == "1" else f"{length} {what}s"
    return f"up to {length} of the longest record" if workload == "paper" else f"{length} queries"


def length_chart(evaluation: Evaluation) -> dict[str, Any] | None:
    """Shares of records by length, in at most 24 steps."""
    if evaluation.lengths is None:
        return None
    real, synthetic = evaluation.lengths.real, evaluation.lengths.synthetic
    edges = _bins(real, synthetic)
    bars: list[dict[str, Any]] = []
    for low, high in pairwise(edges):
        ours, theirs = float(synthetic[low:high].sum()), float(real[low:high].sum())
        last = high == edges[-1] and high - low > 1 and high >= len(real)
        label = f"{low}" if high - low == 1 else f"{low}+" if last else f"{low}–{high - 1}"
        bars.append({"label": label, "real": theirs, "synthetic": ours})
    tallest = max(max(bar["real"], bar["synthetic"]) for bar in bars) or 1.0
    for bar in bars:
        for side in ("real", "synthetic"):
            bar[f"{side}_height"] = f"{100 * bar[side] / tallest:.1f}"
    every = -(-len(bars) // 9)  # as many labels as a phone has room for
    ticks = [
        {"column": at + 1, "span": min(every, len(bars) - at), "label": bars[at]["label"].split("–")[0]}
        for at in range(0, len(bars), every)
        if at + every <= len(bars)
    ]
    return {"bars": bars, "tallest": tallest, "ticks": ticks}


def _bins(real: NDArray[Any], synthetic: NDArray[Any]) -> list[int]:
    """Edges of the bars: one per length where that fits, and one for each nearly empty end."""
    shorter = np.maximum(np.cumsum(real), np.cumsum(synthetic))
    longer = np.maximum(np.cumsum(real[::-1])[::-1], np.cumsum(synthetic[::-1])[::-1])
    tail = int(np.flatnonzero(longer >= 0.002).max(initial=0)) + 1
    head = int(np.argmax(shorter >= 0.002))
    head = head if head >= MOST_BARS // 3 else 0
    step = -(-(tail - head) // MOST_BARS)
    inner = [*range(head, tail, step)]
    return sorted({0, *inner, tail if step == 1 else len(real), len(real)})


def co_occurrence(evaluation: Evaluation) -> dict[str, Any] | None:
    """Two heat maps on one scale, and the names of their rows."""
    measured = evaluation.co_occurrence
    if measured is None:
        return None
    names = [evaluation.names[at] for at in measured.positions]
    off = ~np.eye(len(names), dtype=bool)
    full = float(max(measured.real[off].max(), measured.synthetic[off].max()))
    text = "co-occurrence of the {count} most frequent items: rows given, columns counted; {side} data"
    return {
        "names": names,
        "full": full,
        "difference": measured.mean_difference,
        "real": Markup(heat_map(measured.real, names, text.format(count=len(names), side="real"), full)),
        "synthetic": Markup(
            heat_map(measured.synthetic, names, text.format(count=len(names), side="synthetic"), full)
        ),
    }


def frequent(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The most frequent real sets of at least two items, and how often the synthetic data holds them."""
    if evaluation.frequent_sets is None or evaluation.kind == "table":
        return []
    ours = dict(evaluation.frequent_sets.synthetic)
    names = evaluation.names
    return [
        {"items": [names[at] for at in items], "real": share, "synthetic": ours.get(items)}
        for items, share in evaluation.frequent_sets.real
        if len(items) > 1
    ][:8]


def table_columns(evaluation: Evaluation) -> dict[str, Any] | None:
    """Association of columns on both sides, and the distance of every pair."""
    measured = evaluation.table
    if measured is None:
        return None
    fields = list(measured.fields)
    maps = (
        ("real", "association of columns, real data", measured.real_association, 1.0),
        ("synthetic", "association of columns, synthetic data", measured.synthetic_association, 1.0),
        ("distance", "total variation of every pair of columns", measured.total_variation, None),
    )
    off = ~np.eye(len(fields), dtype=bool)
    drawn = {
        key: Markup(heat_map(values, fields, text, float(full or max(values[off].max(), 1e-9))))
        for key, text, values, full in maps
    }
    single = sorted(zip(fields, np.diag(measured.total_variation).tolist(), strict=True), key=lambda f: -f[1])
    return {"names": fields, "single": single, "measured": measured} | drawn


def samples(evaluation: Evaluation) -> dict[str, Any] | None:
    """Records side by side, as chips of items or as rows of a table."""
    if evaluation.kind == "images":
        return None
    names = position_names(evaluation.real_sample.domain)
    if evaluation.row_samples is not None:
        header = [column.name for column in evaluation.columns]
        real, synthetic = evaluation.row_samples
        return {"header": header, "real": real[:8], "synthetic": synthetic[:8]}
    if evaluation.kind == "table":
        header = [field.name for field in evaluation.real_sample.domain.fields]
        return {
            "header": header,
            "real": _rows(evaluation.real_sample, names),
            "synthetic": _rows(evaluation.synthetic_sample, names),
        }
    return {
        "header": None,
        "real": _chips(evaluation.real_sample, names),
        "synthetic": _chips(evaluation.synthetic_sample, names),
    }


def _chips(records: Records, names: tuple[str, ...]) -> list[dict[str, Any]]:
    tiles = []
    for at in range(min(8, len(records))):
        items = [names[i] for i in records.indices[records.indptr[at] : records.indptr[at + 1]]]
        tiles.append({"items": items[:9], "more": max(0, len(items) - 9)})
    return tiles


def _rows(records: Records, names: tuple[str, ...]) -> list[list[str]]:
    fields = records.domain.fields
    columns = []
    for number, (field, start) in enumerate(zip(fields, records.domain.offsets, strict=True)):
        codes = field_codes(records, number)
        texts = [names[start + code].removeprefix(field.name).lstrip("= ") for code in range(field.width)]
        columns.append([texts[code] if code < field.width else "–" for code in codes])
    return [list(row) for row in zip(*columns, strict=True)][:8]


def images(evaluation: Evaluation) -> dict[str, Any] | None:
    """Sample images of both sides, and the mean image of every label."""
    domain = evaluation.real_sample.domain
    found = [at for at, field in enumerate(domain.fields) if isinstance(field, Image)]
    if not found or evaluation.label_images is None:
        return None
    picture = domain.fields[found[0]]
    assert isinstance(picture, Image)

    def sheet(records: Records) -> str:
        return png_uri(contact_sheet(grey_values(records, picture), 8))

    real, synthetic = evaluation.label_images
    return {
        "count": len(evaluation.real_sample),
        "real": sheet(evaluation.real_sample),
        "synthetic": sheet(evaluation.synthetic_sample),
        "labels": len(real),
        "mean_real": png_uri(contact_sheet(real, min(len(real), 10))),
        "mean_synthetic": png_uri(contact_sheet(synthetic, min(len(synthetic), 10))),
    }
