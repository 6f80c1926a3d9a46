"""Relations between columns that survive: one line of figures for each table and seed, at epsilon 1 and delta 1/N.

    python experiments/table_relations.py TABLE [TABLE ...] [--seeds 1 2 3] [--model NAME] [--epsilon 1] [--csv FILE]

Tables: adult, bank, diamonds, nist (in public bins), survey, "stated survey" (answers from 1 to 5), clinic,
"skip rule", "age rule", smooth, causal, "parity 3" to "parity 7"; `made` stands for all made ones, `all` for all.
Every fit goes through `Synthesizer`.

    public tables   tv1, tv2, tv3: mean total variation of columns, pairs and triples; k2, k3: the score of NIST's
                    SDNist, 1000 (1 - tv2) and 1000 (1 - tv3); accuracy and AUC of boosting on synthetic rows
    survey          mean absolute correlation within factors (real .5) and between them (chance .015)
    clinic          Spearman of bill and length of stay; largest relative error by ward, of wards with 2 % of the
                    rows, of median age, mean stay and median bill; zero bills of private patients (real 0) and of
                    others, in percent; codes: mean total variation of the codes of a ward
    rules           percent of rows that no real row can be
    causal          effect of treatment on recovery, alone and with severity held, and real ones
    parity          percent of rows whose label is the parity (chance 50)
    made tables     missing, spike: largest share, in percent, of missing values in a column without any, and of a
                    value of a number beyond its real share

Seeded, so NOT PRIVATE.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import table_data
import tables

import dpgm
from dpgm.errors import PrivacyWarning
from dpgm.mechanisms.randomness import SeededRandomness

PUBLIC = ("adult", "bank", "diamonds", "nist")
Figures = dict[str, float]


def fitted(data: Any, seed: int, epsilon: float, model: str, domain: dpgm.Domain | None = None) -> dpgm.Records:
    """As many synthetic records as there are real ones."""
    source = SeededRandomness(seed)
    made = dpgm.Synthesizer(epsilon, 1 / len(data), model=model, domain=domain, randomness=source).fit(data)
    return made.sample(len(data), seed=seed)


def public_figures(table: tables.Table, drawn: dpgm.Records) -> Figures:
    """Distances and boosting in the public bins."""
    one, two, three = tables.distances(table.binned, drawn)
    accuracy, auc = tables.boosting(drawn, table.test)
    scores = {"k2": 1000 * (1 - two), "k3": 1000 * (1 - three)}
    return {"tv1": one, "tv2": two, "tv3": three, "accuracy": accuracy, "auc": auc} | scores


def survey(_: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """Correlations within factors and between them."""
    factor = np.array([name.split("_")[0] for name in drawn.columns])
    correlation = np.abs(drawn.astype(float).corr().to_numpy())
    same = factor[:, None] == factor
    upper = np.triu(np.ones_like(same), 1)
    return {"within": _mean(correlation[same & upper]), "between": _mean(correlation[~same & upper])}


def clinic(real: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """Bill and stay, groups by ward, bills of nothing."""
    for frame in (real, drawn):
        frame["stay"] = (pd.to_datetime(frame["left"]) - pd.to_datetime(frame["admitted"])).dt.days
    wards = real["ward"].value_counts(normalize=True)
    off = {}
    kept = wards.index[wards >= 0.02]
    for column, middle in (("age", "median"), ("stay", "mean"), ("bill", "median")):
        truth, ours = (frame.groupby("ward")[column].agg(middle) for frame in (real, drawn))
        off[f"{middle} {column}"] = float(((ours.reindex(kept) - truth[kept]) / truth[kept]).abs().fillna(1).max())
    private = drawn["insurance"] == "private"
    return {
        "bill and stay": float(drawn["bill"].corr(drawn["stay"], method="spearman")),
        "real": float(real["bill"].corr(real["stay"], method="spearman")),
        **off,
        "zero bills, private": 100 * _mean(drawn["bill"][private] == 0),
        "zero bills, public": 100 * _mean(drawn["bill"][~private] == 0),
        "codes": float(np.abs(_code_shares(real) - _code_shares(drawn)).sum(1).mean() / 2),
    }


def _code_shares(frame: pd.DataFrame) -> np.ndarray:
    """Which share of the codes of a ward each code has."""
    long = frame[["ward", "codes"]].explode("codes")
    counts = pd.crosstab(long["ward"], long["codes"])
    names = [f"{letter}{number}" for letter in "EIJ" for number in range(10, 20)]
    counts = counts.reindex(index=list(table_data.WARDS), columns=names, fill_value=0)
    return (counts.to_numpy() + 1e-9) / (counts.to_numpy() + 1e-9).sum(1, keepdims=True)


def skip_rule(_: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """Answers of those who have no car, and none of those who have one."""
    without = drawn["car"] != "yes"
    answered = drawn["kind of car"].notna() | drawn["kilometres"].notna()
    silent = drawn["kind of car"].isna() | drawn["kilometres"].isna()
    return {
        "impossible": 100 * _mean((without & answered) | (~without & silent)),
        "answered without a car": 100 * _mean(without & answered),
    }


def age_rule(_: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """People at work who are too young or too old; all combinations of age, status and income that cannot be."""
    outside = (drawn["age"] < 15) | (drawn["age"] > 66)
    working = drawn["status"] == "employed"
    child, retired = drawn["status"] == "child", drawn["status"] == "retired"
    odd = (working & outside) | (child & (drawn["age"] >= 15)) | (retired & (drawn["age"] <= 66))
    return {
        "employed outside": 100 * _mean(working & outside),
        "impossible": 100 * _mean(odd | ((drawn["age"] < 15) & (drawn["income"] > 0))),
    }


def causal(real: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """Difference of recovery between treated and others, alone and within severity, both ways."""
    figures = {}
    for name, frame in (("", drawn), ("real ", real)):
        recovered, treated = frame["recovered"] == "yes", frame["treated"] == "yes"
        figures[f"{name}alone"] = _mean(recovered[treated]) - _mean(recovered[~treated])
        design = np.column_stack([treated, pd.get_dummies(frame["severity"].clip(0, 5)).to_numpy(float)]).astype(
            float
        )
        figures[f"{name}held"] = float(np.linalg.lstsq(design, recovered.to_numpy(float), rcond=None)[0][0])
    return figures


def parity(real: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """Rows whose label is the parity of as many coins as decide it in the real ones."""
    coins = [name for name in real.columns if name != "label"]
    for order in range(3, 8):
        if ((real[coins[:order]].sum(axis=1) % 2 == 1) == (real["label"] == "odd")).all():
            odd = drawn[coins[:order]].astype(int).sum(axis=1) % 2 == 1
            return {"parity": 100 * _mean(odd == (drawn["label"] == "odd"))}
    raise ValueError("no parity in the real rows")


def surprises(real: pd.DataFrame, drawn: pd.DataFrame) -> Figures:
    """Values that no one has: missing ones, and more of one number than there are."""
    missing = spike = 0.0
    for name in real.columns:
        if real[name].isna().any() or isinstance(real[name].iloc[0], list | np.ndarray):
            continue
        missing = max(missing, 100 * _mean(drawn[name].isna()))
        if pd.api.types.is_numeric_dtype(real[name]) and not pd.api.types.is_bool_dtype(real[name]):
            ours, truth = (frame[name].value_counts(normalize=True) for frame in (drawn, real))
            excess = (ours - truth.reindex(ours.index).fillna(0)).max()
            spike = max(spike, 100 * float(excess))
    return {"missing": missing, "spike": spike}


def _mean(values: Any) -> float:
    return float(np.mean(np.asarray(values, dtype=float)))


MEASURES = {
    "survey": survey,
    "stated survey": survey,
    "clinic": clinic,
    "skip rule": skip_rule,
    "age rule": age_rule,
    "causal": causal,
} | {f"parity {order}": parity for order in range(3, 8)}


def measure(name: str, seed: int, epsilon: float, model: str) -> Figures:
    """Fit one table once and compare."""
    if name in PUBLIC:
        table = table_data.public(name)
        start = time.process_time()
        drawn = fitted(table.binned, seed, epsilon, model)
        return {"seconds": time.process_time() - start} | public_figures(table, drawn)
    rows, domain = table_data.MADE[name]()
    start = time.process_time()
    synthetic = fitted(rows, seed, epsilon, model, domain).to_arrow()
    seconds = time.process_time() - start
    real, drawn_frame = rows.to_pandas(), synthetic.to_pandas()
    figures = MEASURES[name](real, drawn_frame) if name in MEASURES else {}
    return {"seconds": seconds} | figures | surprises(real, drawn_frame)


def main() -> None:
    """Print a line for each table and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--model", default="auto")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--csv", type=Path, help="rows of table, seed, figure and value are added to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)  # seeds are not private: meant here
    groups = {"made": list(table_data.MADE), "all": [*PUBLIC, *table_data.MADE]}
    for name in (one for given in options.tables for one in groups.get(given, [given])):
        for seed in options.seeds:
            figures = measure(name, seed, options.epsilon, options.model)
            print(
                f"{name}, seed {seed}:",
                ", ".join(f"{key} {value:.4g}" for key, value in figures.items()),
                flush=True,
            )
            if options.csv is not None:
                with options.csv.open("a", newline="") as file:
                    write = csv.writer(file, lineterminator="\n")
                    write.writerows((name, seed, key, f"{value:.5g}") for key, value in figures.items())


if __name__ == "__main__":
    main()
