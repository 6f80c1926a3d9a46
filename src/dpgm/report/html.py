"""Write an evaluation as one self-contained HTML page: this module computes what each section shows.

The layout is in `report.html.j2`, the charts in `charts.html.j2`, the style in `report.css`.
"""

import base64
import math
import re
import struct
import zlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import numpy as np
from numpy.typing import NDArray

from dpgm import __version__
from dpgm.data.atomic import atomic_file
from dpgm.data.records import Records, grey_values
from dpgm.evaluation.column_metrics import ColumnComparison, ColumnSummary
from dpgm.evaluation.evaluate import INDEPENDENT, SYNTHETIC
from dpgm.evaluation.marginals import field_codes
from dpgm.evaluation.raw_columns import figure_text
from dpgm.evaluation.results import Evaluation
from dpgm.evaluation.row_checks import column_faults, columns_off
from dpgm.evaluation.sentences import column_fault
from dpgm.evaluation.verdict import verdict
from dpgm.evaluation.words import percent, share_text
from dpgm.privacy.certificate import Certificate
from dpgm.report.relations import relations
from dpgm.report.sequences import event_rows
from dpgm.validation import counted

_MOST_BARS = 24  # bars of the chart of record lengths
_CODE = re.compile("`([^`]+)`")  # in a sentence: what a user may type
_LISTED = 8  # sample records and frequent sets that are listed
PAPER_NOTE = (
    "Random items, up to the length of the longest record. Nearly all of these counts are 0, so “always answer 0” "
    "looks excellent here: judge by the popular items above."
)


def write_report(evaluation: Evaluation, path: str | Path, *, certificate: Certificate | None = None) -> None:
    """Write the report as one self-contained HTML file.

    Args:
        evaluation: the result of `evaluate`.
        path: the HTML file to write; it is written completely or not at all.
        certificate: the certificate of the release that the synthetic records came from, to explain its guarantee.

    Privacy: the page is for the curator only; it shows numbers computed on the real data, and some real records.
    """
    page = render_report(evaluation, certificate=certificate)
    with atomic_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render_report(evaluation: Evaluation, *, certificate: Certificate | None = None) -> str:
    """The report as HTML text."""
    sections = {section.__name__: section(evaluation) for section in _SECTIONS}
    return str(_template().render(sections, evaluation=evaluation, certificate=certificate, version=__version__))


def _marked_up(text: str) -> markupsafe.Markup:
    """A sentence without line breaks before percent signs, and with what stands between backticks as code."""
    escaped = str(markupsafe.escape(text)).replace(" %", "\u00a0%")
    return markupsafe.Markup(_CODE.sub(r"<code>\1</code>", escaped))


@cache
def _template() -> jinja2.Template:
    folder = resources.files("dpgm.report")
    loader = jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"math": math, "figure_text": figure_text}
    environment.filters |= {
        "percent": percent,
        "share_text": share_text,
        "faults": lambda column: list(map(column_fault, column_faults(column))),
        "figures": column_figures,
        "keep_percent": _marked_up,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "share": lambda share: f"{100 * share:.3g} %",
        "thousands": lambda number: f"{number:,}",
    }
    return environment.get_template("report.html.j2")


def noun(evaluation: Evaluation) -> str:
    """The word for a position of a record."""
    return {"table": "value", "images": "pixel"}.get(evaluation.data.kind, "item")


def extent(evaluation: Evaluation) -> str:
    """The size of a record in words."""
    fields = evaluation.samples.real.domain.fields
    if evaluation.data.kind == "table":
        return counted(len(fields), "column")
    picture = evaluation.samples.real.domain.image
    if picture is not None:
        levels = "" if picture.levels == 2 else f" of {picture.levels} grey levels"
        return f"images of {picture.height} × {picture.columns} pixels{levels}"
    return (
        counted(evaluation.data.width, "item") if evaluation.data.kind == "sets" else counted(len(fields), "field")
    )


def tiles(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """The few most important figures: value, label and note."""
    tiles = []
    what = noun(evaluation)
    for length, number in ((1, "one"), (2, "two")) if evaluation.data.kind != "images" else ():
        if errors := evaluation.counting.means(length):
            independent = errors.get(INDEPENDENT)
            note = "" if independent is None else f"{percent(independent)} if {what}s were independent"
            tiles.append((percent(errors[SYNTHETIC]), f"error of {number}-{what} counts", note))
    if (table := evaluation.relations.pairs) is not None:
        note = f"{percent(table.mean_one_way)} for single columns"
        tiles.append((percent(table.mean_total_variation), "distance of column pairs", note))
    if evaluation.learning.accuracies:
        best = max(evaluation.learning.accuracies, key=lambda accuracy: accuracy.real)
        note = f"{percent(best.real)} when trained on real records"
        tiles.append((percent(best.synthetic), f"accuracy of a {best.model}", note))
    if (lengths := evaluation.items.lengths) is not None and evaluation.data.kind != "images":
        note = f"{lengths.synthetic_mean:.2f} items per record, real {lengths.real_mean:.2f}"
        tiles.append((percent(lengths.total_variation), "distance of record lengths", note))
    if (sets := evaluation.items.frequent_sets) is not None:
        note = f"of the {len(sets.real)} most frequent"
        tiles.append((percent(sets.recall), f"frequent sets of {what}s found", note))
    if evaluation.data.kind == "images":
        gap = evaluation.items.single.mean_difference
        tiles.append((percent(gap), "difference per pixel", "mean over all pixels, in share of images"))
    return tiles[:4]


def columns(evaluation: Evaluation) -> tuple[ColumnComparison, ...]:
    """All columns, those that are off first (the worst at the top)."""
    off = columns_off(evaluation)
    return (*off, *(column for column in evaluation.columns if column not in off))


def column_figures(column: ColumnComparison) -> list[tuple[str, str, str]]:
    """The figures of one column: label, real and synthetic."""
    real = _side_figures(column, column.real, column.real_mode_share)
    synthetic = _side_figures(column, column.synthetic, column.synthetic_mode_share)
    return [(label, real[label], synthetic[label]) for label in real]


def _side_figures(column: ColumnComparison, side: ColumnSummary, mode_share: float) -> dict[str, str]:
    def value(number: float | None) -> str:
        return figure_text(column.kind, number)

    figures: dict[str, str] = {}
    if column.kind != "category":
        low, median, high = (value(side.quantiles[at] if side.quantiles else None) for at in (0, 2, 4))
        figures |= {"median": median, "mean": value(side.mean), "5 % lie below": low, "95 % lie below": high}
        figures["range"] = "–" if side.low is None else f"{value(side.low)} to {value(side.high)}"
    figures[f"share of {column.mode}"] = share_text(mode_share)
    if column.real.missing or column.synthetic.missing:
        figures["missing"] = share_text(side.missing)
    return figures | {"distinct values": f"{side.distinct:,}"}


def query_tables(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One table of error bars for each kind of queries."""
    what = noun(evaluation)
    titles = {
        ("popular", "all"): f"Records that hold all of the {what}s",
        ("popular", "any"): f"Records that hold any of the {what}s",
        ("paper", "all"): "The paper's random queries",
        ("yours", "all"): f"Your queries: all of the {what}s",
        ("yours", "any"): f"Your queries: any of the {what}s",
    }

    def label(workload: str, length: str) -> str:
        if workload == "popular":
            return f"1 {what}" if length == "1" else f"{length} {what}s"
        return f"up to {length} of the longest record" if workload == "paper" else f"{length} queries"

    tables = []
    for (workload, reading), title in titles.items():
        rows = [row for row in evaluation.counting.rows if (row.workload, row.reading) == (workload, reading)]
        if rows:
            tables.append(
                {
                    "title": title,
                    "rows": [(label(workload, row.length), row) for row in rows],
                    "largest": max(max(row.mean.values()) for row in rows),
                    "note": PAPER_NOTE if workload == "paper" else "",
                    "main": (workload, reading) == ("popular", "all") or workload == "yours",
                }
            )
    return tables


def length_chart(evaluation: Evaluation) -> dict[str, Any] | None:
    """Shares of records by length, in about 24 bars."""
    if evaluation.items.lengths is None:
        return None
    real, synthetic = evaluation.items.lengths.real, evaluation.items.lengths.synthetic
    edges = _bar_edges(real, synthetic)
    bars: list[dict[str, Any]] = []
    for low, high in pairwise(edges):
        last = high == edges[-1] and high - low > 1 and high >= len(real)
        label = f"{low}" if high - low == 1 else f"{low}+" if last else f"{low}–{high - 1}"
        shares = {"real": float(real[low:high].sum()), "synthetic": float(synthetic[low:high].sum())}
        bars.append({"label": label} | shares)
    every = -(-len(bars) // 9)  # a phone has room for nine labels
    ticks = [
        {"column": at + 1, "span": every, "label": bars[at]["label"].split("–")[0]}
        for at in range(0, len(bars) - every + 1, every)
    ]
    tallest = max(max(bar["real"], bar["synthetic"]) for bar in bars) or 1.0
    return {"bars": bars, "tallest": tallest, "ticks": ticks}


def _bar_edges(real: NDArray[Any], synthetic: NDArray[Any]) -> list[int]:
    """Edges of the bars: one bar per length if they fit, and one for each nearly empty end."""
    shorter = np.maximum(np.cumsum(real), np.cumsum(synthetic))
    longer = np.maximum(np.cumsum(real[::-1])[::-1], np.cumsum(synthetic[::-1])[::-1])
    tail = int(np.flatnonzero(longer >= 0.002).max(initial=0)) + 1
    head = int(np.argmax(shorter >= 0.002))
    head = head if head >= _MOST_BARS // 3 else 0
    step = -(-(tail - head) // _MOST_BARS)
    return sorted({0, *range(head, tail, step), tail if step == 1 else len(real), len(real)})


def _off_diagonal(*matrices: NDArray[np.float64]) -> float:
    """The largest off-diagonal value of square matrices."""
    return max(float(matrix[~np.eye(len(matrix), dtype=bool)].max()) for matrix in matrices)


def co_occurrence_maps(evaluation: Evaluation) -> dict[str, Any] | None:
    """Two heat maps on one scale, and the names of their rows and columns."""
    if (measured := evaluation.items.co_occurrence) is None:
        return None
    names = [evaluation.names[at] for at in measured.positions]
    return {"measured": measured, "names": names, "full": _off_diagonal(measured.real, measured.synthetic)}


def column_pairs(evaluation: Evaluation) -> dict[str, Any] | None:
    """Associations of columns in both data sets, and the distances of columns and of pairs."""
    if (measured := evaluation.relations.pairs) is None:
        return None
    single = zip(measured.fields, np.diag(measured.total_variation).tolist(), strict=True)
    full = max(_off_diagonal(measured.total_variation), 1e-9)
    return {"measured": measured, "single": sorted(single, key=lambda field: -field[1]), "full": full}


def frequent_set_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The most frequent real sets of at least two items, and their shares in both data sets."""
    if evaluation.items.frequent_sets is None or evaluation.data.kind == "table":
        return []
    synthetic = dict(evaluation.items.frequent_sets.synthetic)
    names = evaluation.names
    return [
        {"items": [names[at] for at in items], "real": share, "synthetic": synthetic.get(items)}
        for items, share in evaluation.items.frequent_sets.real
        if len(items) > 1
    ][:_LISTED]


def samples(evaluation: Evaluation) -> dict[str, Any] | None:
    """Sample records of both data sets, as lists of items or as rows of a table."""
    if evaluation.data.kind == "images":
        return None
    header: list[str] | None = None
    sides: list[Any]
    if evaluation.samples.rows is not None:
        header = [column.name for column in evaluation.columns]
        sides = [rows[:_LISTED] for rows in evaluation.samples.rows]
    else:
        both = (evaluation.samples.real, evaluation.samples.synthetic)
        if evaluation.data.kind == "table":
            header = [field.name for field in evaluation.samples.real.domain.fields]
            sides = [_rows(records, evaluation.names) for records in both]
        else:
            sides = [_item_lists(records, evaluation.names) for records in both]
    return {"header": header, "real": sides[0], "synthetic": sides[1]}


def _item_lists(records: Records, names: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = [records.indices[start:stop] for start, stop in pairwise(records.indptr[: _LISTED + 1])]
    return [{"items": [names[at] for at in row[:9]], "more": max(0, len(row) - 9)} for row in rows]


def _rows(records: Records, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    columns = []
    for number, (field, start) in enumerate(zip(records.domain.fields, records.domain.offsets, strict=True)):
        texts = [name.removeprefix(field.name).lstrip("= ") for name in names[start : start + field.width]] + ["–"]
        columns.append([texts[code] for code in field_codes(records, number)[:_LISTED]])
    return list(zip(*columns, strict=True))


def images(evaluation: Evaluation) -> dict[str, Any] | None:
    """Sample images of both data sets, and the mean image of each label."""
    picture = evaluation.samples.real.domain.image
    if evaluation.images is None or picture is None:
        return None
    samples = [grey_values(r, picture) for r in (evaluation.samples.real, evaluation.samples.synthetic)]
    labels = len(evaluation.images.label_images[0])
    sheets = [png_uri(contact_sheet(images, 8)) for images in samples]
    means = [png_uri(contact_sheet(images, min(labels, 10))) for images in evaluation.images.label_images]
    return {
        "count": len(evaluation.samples.real),
        "real": sheets[0],
        "synthetic": sheets[1],
        "labels": labels,
        "mean_real": means[0],
        "mean_synthetic": means[1],
    }


def png_uri(pixels: NDArray[np.uint8]) -> str:
    """A grey image (height, width) as a PNG data URI."""
    height, width = pixels.shape

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = np.pad(pixels, ((0, 0), (1, 0)))  # every row starts with filter type 0
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 9)
    data = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", packed) + part(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def contact_sheet(images: NDArray[np.floating], columns: int) -> NDArray[np.uint8]:
    """Images (count, height, width) with values in [0, 1] arranged in rows, as dark ink on white."""
    count, height, width = images.shape
    gap = max(1, width // 14)
    rows = -(-count // columns)
    sheet = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap), 255, dtype=np.uint8)
    for at, image in enumerate(images):
        top, left = gap + at // columns * (height + gap), gap + at % columns * (width + gap)
        ink = 255 - np.clip(image * 255, 0, 255).astype(np.uint8)
        sheet[top : top + height, left : left + width] = ink
    return sheet


# The template refers to the result of each function by the function's name.
_SECTIONS: tuple[Callable[[Evaluation], Any], ...] = (
    verdict,
    tiles,
    query_tables,
    length_chart,
    event_rows,
    co_occurrence_maps,
    column_pairs,
    columns,
    relations,
    samples,
    images,
    frequent_set_rows,
    noun,
    extent,
)
