"""Is the verdict fooled? Kinds of fakes made from held-out real rows, each with one thing wrong, and fresh real samples.

    python experiments/verdict_fakes.py fakes [--seed 100] [--rows 2000,6000,18000] [--each 1] [--out FILE.csv]
    python experiments/verdict_fakes.py fresh [--samples 100] [--rows 2000,...] [--first-seed 1000] [--out FILE.csv]

A fake is a new sample of the same population with one fault. It passes if the verdict is not "close" and a sentence
about what is off names the cause: every word of one of the alternatives beside the fake. A fresh sample passes if it is
"close". Public tables have no more rows than half of theirs. Rules were chosen on seeds below 10; reported figures are
of seeds that were used once.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from fake_makers import (
    Frame,
    Make,
    Random,
    along_a_chain,
    changed,
    constant,
    contaminated,
    exchanged,
    permuted,
    repeated,
    reversed_ranks,
    weakened,
)
from verdict_tables import TABLES

from dpgm import evaluate

MOST_PUBLIC = {"adult": 24_000, "bank": 22_600, "diamonds": 26_900, "acs": 13_600}  # rows of a half
Words = tuple[tuple[str, ...], ...]
Fake = tuple[str, Make, Words]  # table, what makes it, and the words of which one alternative must be in a sentence


def stays_permuted(f: Frame, rng: Random) -> Frame:
    days = (f.discharged - f.admitted).to_numpy()
    return f.assign(discharged=f.admitted + rng.permutation(days))


def shipping_permuted(f: Frame, rng: Random) -> Frame:
    return f.assign(shipped=f.ordered + rng.permutation((f.shipped - f.ordered).to_numpy()))


def terms_reversed(f: Frame, rng: Random) -> Frame:
    days = pd.Series((f.closed - f.opened.dt.normalize()).dt.days)
    turned = reversed_ranks("days")(pd.DataFrame({"days": days}), rng).days
    return f.assign(closed=f.opened.dt.normalize() + pd.to_timedelta(turned, unit="D"))


def missing_moved(f: Frame, rng: Random) -> Frame:
    """As many missing values, in other wards."""
    present, bmi = f.bmi.dropna().to_numpy(), f.bmi.to_numpy().copy()
    lucky = f.ward.isin(["heart", "bone"]).to_numpy()
    gone = f.bmi.isna().to_numpy()
    bmi[gone] = rng.choice(present, gone.sum())
    bmi[rng.permutation(np.flatnonzero(lucky))[: gone.sum()]] = np.nan
    return f.assign(bmi=bmi)


def any_day_of_the_week(f: Frame, rng: Random) -> Frame:
    """Every order moved within its week."""
    moved = f.ordered - pd.to_timedelta(f.ordered.dt.day_of_week, unit="D")
    ordered = moved + pd.to_timedelta(rng.integers(0, 7, len(f)), unit="D")
    return f.assign(ordered=ordered, shipped=ordered + (f.shipped - f.ordered))


def any_month(f: Frame, rng: Random) -> Frame:
    """Orders of the same weekdays, spread over the two years."""
    weeks = pd.to_timedelta(7 * rng.integers(0, 104, len(f)), unit="D")
    ordered = pd.Timestamp("2021-12-27") + pd.to_timedelta(f.ordered.dt.day_of_week, unit="D") + weeks
    ordered = ordered.clip(f.ordered.min(), f.ordered.max())
    return f.assign(ordered=ordered, shipped=ordered + (f.shipped - f.ordered))


def shifted(days: int, *names: str) -> Make:
    return lambda f, rng: f.assign(**{name: f[name] + pd.Timedelta(days=days) for name in names})


def any_hour(f: Frame, rng: Random) -> Frame:
    return f.assign(opened=f.opened.dt.normalize() + pd.to_timedelta(rng.integers(480, 1080, len(f)), unit="m"))


def no_payday(f: Frame, rng: Random) -> Frame:
    """Loans of the first and the fifteenth moved by up to three days."""
    paid = f.opened.dt.day.isin([1, 15]).to_numpy()
    moved = pd.to_timedelta(np.where(paid, rng.integers(-3, 4, len(f)), 0), unit="D")
    return f.assign(opened=f.opened + moved, closed=f.closed + moved)


def order_broken(f: Frame, rng: Random) -> Frame:
    turned = rng.random(len(f)) < 0.04
    first, last = f.admitted.to_numpy(), f.discharged.to_numpy()
    return f.assign(admitted=np.where(turned, last, first), discharged=np.where(turned, first, last))


def tail_cut(name: str, share: float = 0.97) -> Make:
    def make(f: Frame, rng: Random) -> Frame:
        limit = f[name].quantile(share)
        return changed(
            name, lambda rows, r: r.choice(f[name][f[name] <= limit], len(rows)), lambda g: g[name] > limit
        )(f, rng)

    return make


def baskets_by_kind(f: Frame, rng: Random) -> Frame:
    """Baskets of books and toys exchanged, with their lengths."""
    return exchanged(["basket", "goods"], "kind", "book", "toy")(f, rng)


def items_of_their_own(name: str) -> Make:
    """As many items in every list and as many lists with each item, but no two items belong together."""

    def make(f: Frame, rng: Random) -> Frame:
        lengths = np.array([len(row) for row in f[name]])
        items = rng.permutation([item for row in f[name] for item in row])
        parts = np.split(items, np.cumsum(lengths)[:-1])
        return f.assign(**{name: [sorted({*map(str, part)}) for part in parts]})

    return make


def spread_halved(name: str, where: object = None, factor: float = 0.3) -> Make:
    def new(rows: Frame, rng: Random) -> object:
        middle = rows[name].mean()
        return (middle + factor * (rows[name] - middle)).round(2)

    return changed(name, new, where)  # type: ignore[arg-type]


def noisy(name: str, share: float, digits: int = 2) -> Make:
    return lambda f, rng: f.assign(**{name: (f[name] * (1 + share * rng.normal(size=len(f)))).round(digits)})


def swapped(first: str, last: str, share: float) -> Make:
    def make(f: Frame, rng: Random) -> Frame:
        rows = rng.random(len(f)) < share
        a, b = f[first].to_numpy(), f[last].to_numpy()
        return f.assign(**{first: np.where(rows, b, a), last: np.where(rows, a, b)})

    return make


def block_independent(f: Frame, rng: Random) -> Frame:
    return f.assign(**{f"c{at}": rng.permutation(f[f"c{at}"].to_numpy()) for at in range(1, 6)})


def rare_merged(name: str, below: float) -> Make:
    def make(f: Frame, rng: Random) -> Frame:
        shares = f[name].map(f[name].value_counts(normalize=True))
        return changed(name, constant(str(f[name].mode()[0])), lambda g: shares.to_numpy() < below)(f, rng)

    return make


def copied_answers(f: Frame, rng: Random) -> Frame:
    """Half of the people give the same answer twice: a relation is too strong."""
    return changed("a2", lambda rows, r: rows.a1, share=0.5)(f, rng)


def not_together(f: Frame, rng: Random) -> Frame:
    """Whether there is a partner, and whether there is an income of one, no longer agree."""
    return permuted("partner_income")(f, rng)


KINDS: dict[str, list[Fake]] = {
    "durations permuted": [
        ("clinic", stays_permuted, (("days from admitted to discharged",),)),
        ("shop", shipping_permuted, (("days from ordered to shipped",), ("shipped", "rating"))),
    ],
    "durations reversed": [("loans", terms_reversed, (("days from opened to closed",), ("closed", "months")))],
    "ranking reversed": [
        ("clinic", reversed_ranks("bill"), (("bill",),)),
        ("diamonds", reversed_ranks("price"), (("price",),)),
        ("bank", reversed_ranks("duration"), (("duration",),)),
    ],
    "relation weakened to half": [
        ("survey", weakened("a1"), (("a1",),)),
        ("adult", weakened("hours"), (("hours",),)),
        ("acs", weakened("POVPIP"), (("POVPIP",),)),
    ],
    "relation too strong": [("survey", copied_answers, (("a1", "a2"),))],
    "sign flipped": [
        ("survey", lambda f, rng: f.assign(b2=6 - f.b2), (("b2",),)),
        ("diamonds", reversed_ranks("table"), (("table",),)),
    ],
    "relation lost in one group": [
        ("clinic", permuted("bill", where=lambda f: (f.ward == "heart") & (f.insurance != "private")), (("bill", "ward"),)),
        ("diamonds", permuted("price", where=lambda f: f.color == "D"), (("price", "color"),)),
        ("survey", permuted("a1", where=lambda f: f.employed == "no"), (("a1", "employed"), ("a1", "years_worked"))),
    ],
    "three-way relation lost": [
        ("survey", permuted("renews"), (("plan", "city", "renews"),)),
        ("loans", permuted("late", "score"), (("late", "online"), ("late", "check"), ("score", "online"), ("score", "check"))),
    ],
    "groups exchanged": [
        ("shop", exchanged("price", "country", "CH", "AT"), (("price", "country"), ("price", "total"))),
        ("adult", exchanged("occupation", "sex", "Male", "Female"), (("occupation", "sex"),)),
        ("clinic", exchanged("codes", "ward", "heart", "bone"), (("codes", "ward"),)),
        ("shop", baskets_by_kind, (("basket", "kind"), ("goods", "kind"))),
    ],
    "rare group wrong": [
        ("clinic", changed("age", lambda f, rng: rng.integers(1, 90, len(f)), lambda f: f.ward == "ENT children"), (("ENT children", "age"),)),
        ("clinic", changed("sex", constant("f"), lambda f: f.ward == "burns"), (("burns", "sex"),)),
        ("bank", changed("age", lambda f, rng: rng.integers(20, 70, len(f)), lambda f: f.job == "student"), (("student", "age"),)),
        ("acs", changed("HISP", constant("1"), lambda f: f.RAC1P == "6"), (("HISP", "RAC1P"),)),
    ],
    "impossible combinations": [
        ("clinic", changed("pregnant", constant("yes"), lambda f: f.sex == "m", 0.03), (("pregnant", "sex"),)),
        ("survey", changed("employed", constant("yes"), lambda f: f.age > 66, 0.1), (("age", "employed"), ("years_worked", "employed"))),
        ("acs", changed("MSP", constant("1"), lambda f: f.AGEP < 15, 0.15), (("MSP", "AGEP"), ("MSP", "INDP"), ("MSP", "PINCP"), ("MSP", "EDU"))),
        ("adult", changed("sex", constant("Female"), lambda f: f.relationship == "Husband", 0.05), (("sex", "relationship"), ("sex", "marital"))),
    ],
    "skip rule broken": [
        ("clinic", changed("cigarettes", constant(5.0), lambda f: f.smokes == "no", 0.04), (("smokes", "cigarettes"),)),
        ("survey", permuted("years_worked"), (("years_worked", "employed"),)),
        ("bank", permuted("pdays"), (("pdays",),)),
    ],
    "mean right, spread wrong": [
        ("shop", spread_halved("price", lambda f: f.kind == "coat", 0.2), (("price", "coat"), ("price", "total"), ("price", "basket"))),
        ("clinic", changed("age", lambda f, rng: np.clip((2 * f.age - f.age.mean()).round(), 1, 99), lambda f: f.ward == "birth"), (("age", "birth"), ("age", "pregnant"))),
        ("bank", spread_halved("balance"), (("balance",),)),
        ("acs", spread_halved("AGEP", lambda f: f.MSP == "1"), (("AGEP", "MSP"),)),
    ],
    "rows repeated": [
        ("shop", repeated(20 / 10_000, 0.1), (("epeated",),)),
        ("adult", repeated(0.1), (("epeated",),)),
        ("diamonds", repeated(0.2), (("epeated",),)),
    ],
    "leading zeros lost": [("loans", lambda f, rng: f.assign(postcode=f.postcode.str.lstrip("0")), (("postcode",),))],
    "weekdays lost": [("shop", any_day_of_the_week, (("weekday of ordered",), ("ordered", "Sunday")))],
    "seasons lost": [
        ("shop", any_month, (("ordered",),)),
        ("bank", permuted("month"), (("month",),)),
    ],
    "hours of the day lost": [("loans", any_hour, (("opened",),))],
    "days of the month lost": [("loans", no_payday, (("opened", "day"), ("opened", "2019"), ("opened", "202")))],
    "dates shifted": [("shop", shifted(45, "ordered", "shipped"), (("ordered",),))],
    "trend over time lost": [("loans", permuted("rate"), (("rate", "opened"),))],
    "order of dates broken": [("clinic", order_broken, (("admitted", "discharged"),))],
    "lists unrelated to the columns": [
        ("clinic", permuted("codes"), (("codes", "ward"), ("codes", "age"))),
        ("shop", permuted("basket"), (("basket", "kind"), ("basket", "goods"))),
    ],
    "items of a list unrelated": [("shop", items_of_their_own("basket"), (("basket", "basket"), ("basket", "kind")))],
    "lists cut": [("shop", lambda f, rng: f.assign(basket=[items[:3] for items in f.basket]), (("basket",),))],
    "sums do not add up": [("loans", noisy("total", 0.03), (("total",),))],
    "products do not hold": [("shop", noisy("total", 0.05), (("total",),))],
    "missing at random": [
        ("clinic", permuted("bmi"), (("bmi", "ward"), ("bmi missing",))),
        ("acs", permuted("NPF"), (("NPF",),)),
    ],
    "missing in other groups": [("clinic", missing_moved, (("bmi", "ward"), ("bmi missing",)))],
    "missing together no longer": [("loans", not_together, (("partner", "partner_income"),))],
    "missing filled with the median": [
        ("clinic", lambda f, rng: f.assign(bmi=f.bmi.fillna(f.bmi.median())), (("bmi",),)),
        ("acs", lambda f, rng: f.assign(PINCP=f.PINCP.fillna(f.PINCP.median())), (("PINCP",),)),
    ],
    "rounding": [
        ("survey", lambda f, rng: f.assign(income=f.income.round(-2)), (("income",),)),
        ("shop", lambda f, rng: f.assign(discount=(f.discount + rng.uniform(0, 1, len(f))).round(1)), (("discount",),)),
        ("loans", lambda f, rng: f.assign(income=f.income + rng.integers(-40, 41, len(f))), (("income",),)),
        ("adult", lambda f, rng: f.assign(age=5 * (f.age / 5).round().astype(int)), (("age",),)),
    ],
    "tail cut": [("clinic", tail_cut("bill"), (("bill",),)), ("adult", tail_cut("gain"), (("gain",),))],
    "outliers": [
        ("shop", changed("price", lambda f, rng: f.price * 30, share=0.015), (("price",),)),
        ("diamonds", changed("carat", lambda f, rng: f.carat * 10, share=0.02), (("carat",),)),
    ],
    "a phantom value": [
        ("shop", changed("price", constant(33.33), share=0.02), (("price",),)),
        ("bank", changed("balance", constant(1000), share=0.03), (("balance",),)),
        ("clinic", changed("bill", constant(0.0), lambda f: f.insurance != "private", 0.1), (("bill",),)),
    ],
    "one column decides another no longer": [
        ("adult", permuted("education-num"), (("education",),)),
        ("loans", changed("town", lambda f, rng: rng.permutation(f.town), share=0.06), (("town", "postcode"),)),
    ],
    "noise": [
        ("diamonds", noisy("x", 0.05), (("x",),)),
        ("loans", lambda f, rng: f.assign(born=f.born + rng.integers(-4, 5, len(f))), (("born",),)),
    ],
    "a value of another unit": [
        ("clinic", changed("bmi", lambda f, rng: (f.bmi * 2.2).round(1), share=0.05), (("bmi",),)),
        ("diamonds", changed("depth", lambda f, rng: (f.depth / 10).round(1), share=0.03), (("depth",),)),
    ],
    "columns swapped": [("diamonds", swapped("x", "z", 0.08), (("x", "z"), ("x",), ("z",)))],
    "U-shape lost": [("survey", permuted("happy"), (("happy", "age"),))],
    "rare values merged": [
        ("adult", rare_merged("country", 0.02), (("country",),)),
        ("acs", rare_merged("RAC1P", 0.06), (("RAC1P",),)),
    ],
    "labels of another spelling": [("bank", lambda f, rng: f.assign(marital=f.marital.replace("single", "Single")), (("marital",),))],
    "share of the label": [("bank", changed("y", constant("yes"), share=0.06), (("y",),)), ("adult", changed("income", constant(">50K"), share=0.08), (("income",),))],
    "a fifth of the rows unrelated": [
        ("acs", contaminated(0.2), (("",),)),
        ("diamonds", contaminated(0.2), (("",),)),
        ("loans", contaminated(0.2), (("",),)),
    ],
    "a chain of columns": [
        ("adult", along_a_chain(["age", "marital", "relationship", "sex", "income", "education", "education-num", "occupation", "workclass", "hours", "gain", "loss", "fnlwgt", "race", "country"]), (("",),)),
        ("survey", along_a_chain([f"{b}{n}" for b in "abcd" for n in range(1, 6)] + ["employed", "age", "years_worked", "income", "happy", "plan", "renews", "city"]), (("",),)),
    ],
    "a block of columns independent": [("survey", block_independent, (("c1",), ("c2",), ("c3",), ("c4",), ("c5",)))],
    "missing where none are": [
        ("adult", changed("race", constant(None), share=0.015), (("race",),)),
        ("clinic", changed("age", constant(np.nan), share=0.015), (("age", "missing"),)),
    ],
}  # fmt: skip


def named(sentences: tuple[str, ...], alternatives: Words) -> bool:
    """Whether a sentence has all words of one alternative."""
    return any(all(word in text for word in words) for text in sentences for words in alternatives)


def judge_fakes(rows: list[int], seed: int, only: str, each: int) -> list[dict[str, object]]:
    found = []
    for number, (kind, fakes) in enumerate(KINDS.items()):
        for at, (table, make, alternatives) in enumerate(fakes[:each]):
            if only not in kind and only != table:
                continue
            for count in rows:
                size = min(count, MOST_PUBLIC.get(table, count))
                real, held_out = TABLES[table](size, 2 * seed), TABLES[table](size, 2 * seed + 1)
                fake = make(held_out, np.random.default_rng([seed, number, at]))
                start = time.process_time()
                judged = evaluate(real, fake, baselines={}).verdict
                seconds = round(time.process_time() - start, 2)
                row = {"kind": kind, "table": table, "rows": size, "grade": judged.grade}
                row |= {"named": int(named(judged.bad, alternatives)), "seconds": seconds}
                found.append(row | {"headline": judged.headline, "sentence": judged.bad[0] if judged.bad else ""})
                print(*row.values(), sep=" | ", flush=True)
                if judged.grade == "close" or not row["named"]:
                    print(*(f"    {text}" for text in judged.bad), sep="\n", flush=True)
    return found


def judge_fresh(rows: list[int], samples: int, first_seed: int, only: str) -> list[dict[str, object]]:
    found = []
    for table in [name for name in TABLES if not only or name in only.split(",")]:
        for count in rows:
            size = min(count, MOST_PUBLIC.get(table, count))
            close = 0
            for seed in range(first_seed, first_seed + samples):
                judged = evaluate(
                    TABLES[table](size, 2 * seed), TABLES[table](size, 2 * seed + 1), baselines={}
                ).verdict
                close += judged.grade == "close"
                found.append({"table": table, "rows": size, "seed": seed, "grade": judged.grade})
                if judged.grade != "close":
                    print(table, seed, judged.grade, *judged.bad, sep="\n    ", flush=True)
            print(table, size, close, "of", samples, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["fakes", "fresh"])
    parser.add_argument("--rows", default="2000,6000,18000")
    parser.add_argument("--each", type=int, default=4, help="tables on which each kind is tried")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = [int(text) for text in chosen.rows.split(",")]
    if chosen.what == "fakes":
        found = judge_fakes(rows, chosen.seed, chosen.only, chosen.each)
        close, known = sum(row["grade"] == "close" for row in found), sum(int(str(row["named"])) for row in found)
        missed = {row["kind"] for row in found if not row["named"]}
        print(
            f"{len(found)} fakes of {len({row['kind'] for row in found})} kinds: {close} called close, {known} named"
        )
        print(f"kinds with one that is not named: {sorted(map(str, missed))}")
    else:
        found = judge_fresh(rows, chosen.samples, chosen.first_seed, chosen.only)
    if chosen.out is not None and found:
        with chosen.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, found[0])
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    sys.exit(main())
