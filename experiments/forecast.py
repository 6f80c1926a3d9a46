"""How far off a release is, beside how far off `dpgm plan --forecast` said it would be, from public numbers alone.

Every set is fitted, and its release is judged by the same errors as the forecast (`dpgm/synthesis/forecast.py`). The
made-up people of forecasts were chosen with bank marketing, nltcs, plants and the 16 most frequent areas of msweb
(`--tuned`); the sets that are reported had no part in it.

    python experiments/forecast.py [--tuned] [--only adult] [--epsilon 1 4]
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from data_folder import DATA
from fidelity_data import load
from table_data import public

from dpgm.data.records import Records
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.strategy.protocol import RunContext
from dpgm.strategy.settings import Config
from dpgm.synthesis.books import Books
from dpgm.synthesis.certified_fit import discover_and_fit
from dpgm.synthesis.forecast import Errors, errors_of, forecast
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.sampling import Sample

REPORTED = ("adult", "diamonds", "nist", "msweb", "accidents")
TUNED = ("bank", "nltcs", "plants", "msweb16")
TABLES = ("adult", "diamonds", "nist", "bank")
SEEDS = (1,)
RESULTS = Path(__file__).parent / "results" / "forecast.csv"


def records_of(name: str) -> Records:
    """A public set in its public bins."""
    return public(name).binned if name in TABLES else load(name, DATA).records


def found(records: Records, epsilon: float) -> dict[str, float | None]:
    """Root mean square errors of fits with other noise each."""
    every = []
    for seed in SEEDS:
        plan = make_plan(Config(epsilon), len(records), records.domain)
        with Books.open(plan, records) as books:
            gateway = books.gateway(SeededRandomness(seed))
            domain, generator = discover_and_fit(gateway, books, plan, records.domain, RunContext())
        every.append(vars(errors_of(records, Sample(generator, domain, len(records), seed=seed).records())))
    return {name: None if every[0][name] is None else _rms([one[name] for one in every]) for name in every[0]}


def _rms(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def row(name: str, epsilon: float) -> dict[str, str]:
    """What was said and what was found, and the first divided by the second."""
    records = records_of(name)
    has_items = any(field.is_set for field in records.domain.fields)
    mean = float(records.lengths.mean()) if has_items else None
    told: Errors = forecast(Config(epsilon), len(records), records.domain, mean_length=mean).errors
    seen = found(records, epsilon)
    cells = {"set": name, "epsilon": f"{epsilon:g}", "records": str(len(records))}
    for kind, error in seen.items():
        said = getattr(told, kind)
        known = error is not None and said is not None
        cells |= {f"{kind} said": f"{said:.4g}" if known else "", f"{kind} found": f"{error:.4g}" if known else ""}
        cells[f"{kind} ratio"] = f"{said / error:.2f}" if known else ""
    return cells


def main() -> None:
    """One row for each set and epsilon; kept with those of the sets that are not asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuned", action="store_true", help="the sets that forecasts were chosen with")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 4.0])
    arguments = parser.parse_args()
    path = RESULTS.with_name("forecast_tuned.csv") if arguments.tuned else RESULTS
    kept = list(csv.DictReader(path.open())) if path.exists() else []
    for name in arguments.only or (TUNED if arguments.tuned else REPORTED):
        for epsilon in arguments.epsilon:
            made = row(name, epsilon)
            print(made, flush=True)
            kept = [one for one in kept if (one["set"], one["epsilon"]) != (name, made["epsilon"])] + [made]
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(made), lineterminator="\n")
                writer.writeheader()
                writer.writerows(kept)


if __name__ == "__main__":
    main()
