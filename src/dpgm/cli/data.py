"""Commands about data files: `inspect` and `simulate`."""

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import typer

import dpgm
from dpgm.cli.app import AS_JSON, FORCE, app, argument, option
from dpgm.cli.options import DATA, takes_read_options
from dpgm.cli.terminal import read_stdin
from dpgm.errors import UsageError
from dpgm.validation import counted


class SimulatedData(StrEnum):
    """The simulated data sets."""

    transit = "transit"
    cdr = "cdr"
    trips = "trips"


@app.command()
@takes_read_options
def inspect(
    data: str = DATA,
    *,
    options: "dpgm.ReadOptions",
    draft_domain: Path | None = option(
        "--draft-domain", "Write a draft domain (YAML or JSON) to this file.", metavar="FILE"
    ),
    drop: list[str] | None = option("--drop", "Omit this column from the draft (repeatable).", metavar="COLUMN"),
    kind: list[str] | None = option(
        "--kind",
        "Kind of a column: number, integer, date, datetime, boolean, categorical, items, identifier, ignored"
        " (repeatable).",
        metavar="COLUMN=KIND",
    ),
    force: bool = FORCE,
    as_json: bool = AS_JSON,
) -> None:
    """Describe a data file (curator only): records, fields, lengths; or draft a domain file.

    Example: dpgm inspect visits.parquet --draft-domain domain.yaml
    """
    (data,) = read_stdin(data, detect_format=True, folder=options.cache)  # type: ignore[assignment]
    found = dpgm.inspect_file(
        data, options, draft_domain=draft_domain, force=force, drop=drop or (), kinds=_kinds(kind or [])
    )
    if as_json:
        plain = asdict(found)
        fields = found.domain.fields
        plain["domain"] = [{"name": field.name, "kind": field.kind, "width": field.width} for field in fields]
        plain["note"] = "curator only: computed on the data, do not publish"
        typer.echo(json.dumps(plain, indent=1))
    else:
        typer.echo("\n".join(found.lines()))
    if draft_domain is not None:
        if found.held_by_one:
            typer.echo(
                f"warning: {found.held_by_one:,} of the items or values in the draft are held by one person only; the"
                " domain of a release is published.",
                err=True,
            )
        advice = "read it, remove what is not public knowledge, then take out its line `drafted_from_data`"
        if found.confirm:
            advice = "confirm the checklist above"
        typer.echo(f"draft domain in {draft_domain}: {advice}.", err=True)


def _kinds(stated: list[str]) -> dict[str, str]:
    """The kinds stated as `COLUMN=KIND`, by column."""
    kinds = {}
    for one in stated:
        name, equals, kind = one.rpartition("=")
        if not equals or not name:
            raise UsageError(f"`--kind` must be COLUMN=KIND, such as admitted=date; got {one!r}.")
        kinds[name] = kind
    return kinds


@app.command()
def simulate(
    town: SimulatedData = argument("The data set to simulate."),
    out: Path = option("--out", "File to write; its ending determines the format.", ..., metavar="FILE"),
    records: int | None = option(
        "--records", "Number of people (default: as many as in the paper; trips: 50,000)."
    ),
    seed: int = option("--seed", "Seed of the people; the city is always the same.", 0),
    shape: str | None = option("--shape", "basket, long or wide."),
    domain_out: Path | None = option(
        "--domain-out", "Also write the public domain (YAML or JSON).", metavar="FILE"
    ),
    places_out: Path | None = option(
        "--places-out", "Trips: also write where the stations are (CSV).", metavar="FILE"
    ),
    force: bool = FORCE,
) -> None:
    """Simulate people moving about a city: the places of each (transit, cdr), or travel cards with times (trips).

    Example: dpgm simulate transit --records 100000 --out visits.parquet
    """
    from dpgm.data.simulate import CDR, TRANSIT, simulated_blocks, town_domain
    from dpgm.data.simulate_trips import CARDS, simulated_trip_blocks, trip_domain, write_stations

    if town is SimulatedData.trips:
        domain = trip_domain()
        blocks, places = simulated_trip_blocks(CARDS if records is None else records, seed), "stations"
    elif places_out is not None:
        raise UsageError("`--places-out` is for trips; leave it out.")
    else:
        chosen = TRANSIT if town is SimulatedData.transit else CDR
        domain = town_domain(chosen)
        count = chosen.records if records is None else records
        blocks, places = simulated_blocks(chosen, count, seed), chosen.field
    with dpgm.RecordWriter(out, domain, shape=shape, layout=domain.layout, force=force) as writer:
        for block in blocks:
            writer.write(block)
    if domain_out is not None:
        dpgm.save_domain(domain, domain_out, force=force)
    if places_out is not None:
        write_stations(places_out, force=force)
    width = domain.fields[-1].width
    typer.echo(f"{counted(writer.count, 'simulated record')} ({width:,} {places}) in {out}")
