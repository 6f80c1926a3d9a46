"""The section of a report on sequences: what follows each item, distances beside those of baselines, hours and gaps."""

from typing import Any

import numpy as np

from dpgm.evaluation.evaluate import SYNTHETIC
from dpgm.evaluation.event_figures import LAGS
from dpgm.evaluation.results import Evaluation

_LABELS = {
    "steps": "steps (pairs in a row)",
    "triples": "three in a row",
    "ends": "first with last item",
    "hours": "hours of the day",
    "hour_pairs": "hours of consecutive events",
    "gaps": "days between events",
}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def event_rows(evaluation: Evaluation) -> dict[str, Any] | None:
    """The pictures and figures of sequences."""
    if (figures := evaluation.events) is None:
        return None
    methods = list(figures.distances["steps"])
    rows = [
        {"label": _LABELS[name], "values": [values.get(method) for method in methods]}
        for name, values in figures.distances.items()
    ]
    rows += [
        {"label": f"error of runs of {length}", "values": [values.get(method) for method in methods]}
        for length, values in figures.run_errors.items()
    ]
    lags = [f"the event {lag} before" for lag in range(1, LAGS + 1)]
    pictures: list[tuple[str, list[str], Any]] = [("Events that repeat an earlier one", lags, figures.repeats)]
    if figures.times is not None:
        hours, gaps = (
            [str(at) for at in range(len(pair[0]))] for pair in (figures.times.hours, figures.times.gaps)
        )
        pictures += [
            ("Events by hour of the day", [f"{hour}:00" for hour in hours], figures.times.hours),
            ("Days between events of a person", gaps, figures.times.gaps),
            ("Events by weekday", list(_WEEKDAYS), figures.times.weekdays),
        ]
    return {
        "steps": figures.steps,
        "pictures": [(title, labels, tuple(map(np.asarray, pair))) for title, labels, pair in pictures],
        "methods": [method if method != SYNTHETIC else "synthetic data" for method in methods],
        "rows": rows,
        "returns": figures.returns,
        "closed": figures.closed,
    }
