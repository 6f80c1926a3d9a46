"""Commands that make releases: plan and fit."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpgm.cli.app import OUTPUT, AsJson, Force, Quiet, app, is_first, rank_and_size
from dpgm.cli.reading import Data, takes_read_options
from dpgm.cli.terminal import announce, bars, figure, read_stdin, refuse_pipe, reporting_spent_budget

if TYPE_CHECKING:
    from dpgm.data.domain import Domain
    from dpgm.data.formats import Source
    from dpgm.data.read.options import ReadOptions
    from dpgm.data.records import Records
    from dpgm.privacy.certificate import Certificate
    from dpgm.synthesis.plan import Plan

_FEW_RECORDS = 300  # times epsilon: below, noise is as large as most counts of a table (docs/guides/pitfalls.md)
_PRIVACY, _MODEL, _STOPPING = "Privacy", "The generator", "Stopping and going on"

Epsilon = Annotated[
    float, typer.Option("--epsilon", help="Privacy budget; 1 is a usual choice.", rich_help_panel=_PRIVACY)
]
Delta = Annotated[
    float | None, typer.Option("--delta", help="By default 1 / (10 x number of records).", rich_help_panel=_PRIVACY)
]
Clusters = Annotated[
    int | None, typer.Option("--clusters", help="Networks of a vae or rbm mixture.", rich_help_panel=_MODEL)
]
ModelName = Annotated[
    str,
    typer.Option("--model", help="auto, products, image, vae, rbm, independent or mwem.", rich_help_panel=_MODEL),
]
PresetName = Annotated[
    str, typer.Option("--preset", help="default, or paper for the paper's own choices.", rich_help_panel=_MODEL)
]
MeanLength = Annotated[
    float | None,
    typer.Option(
        "--mean-length",
        help="Public mean number of items per record, from which a vae or rbm starts.",
        rich_help_panel=_MODEL,
    ),
]


@app.command()
def plan(
    epsilon: Epsilon,
    records: Annotated[int, typer.Option("--records", help="Public number of records.")],
    delta: Delta = None,
    clusters: Clusters = None,
    model: ModelName = "auto",
    preset: PresetName = "default",
    mean_length: MeanLength = None,
    domain: Annotated[Path | None, typer.Option("--domain", help="Domain file (YAML or JSON).")] = None,
    items: Annotated[int | None, typer.Option("--items", help="Plan for an item set of this many items.")] = None,
    rows_per_person: Annotated[
        int, typer.Option("--rows-per-person", help="Records that a person has at most.", metavar="K")
    ] = 1,
    as_json: AsJson = False,
    rules: Annotated[bool, typer.Option("--rules", help="Print every tuned number of the plan, as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the plan for `fit --plan`.", rich_help_panel=OUTPUT)
    ] = None,
    force: Force = False,
) -> None:
    """Show the privacy plan before any data is opened.

    Example: dpgm plan --epsilon 1 --records 100000
    """
    from dpgm.data.atomic import atomic_file, check_output
    from dpgm.data.domain import Domain
    from dpgm.data.domain_file import load_domain
    from dpgm.errors import UsageError
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.estimate import estimate_fit, machine_speed
    from dpgm.synthesis.plan import make_plan

    if out is not None:
        check_output(out, force=force, inputs=(domain,))
    if domain is not None and items is not None:
        raise UsageError("give --domain or --items, not both.")
    described = load_domain(domain) if domain is not None else None if items is None else Domain.of_items(items)
    request = Config(epsilon, delta, clusters, model, preset, mean_length, rows_per_person)  # type: ignore[arg-type]
    made = make_plan(request, records, described)
    if out is not None:
        with atomic_file(out) as temporary:
            temporary.write_text(json.dumps(made.to_json(), indent=1) + "\n", "utf-8")
    if rules:
        typer.echo(json.dumps(made.settings.to_json(), indent=1))
    elif as_json:
        expected = estimate_fit(made, described, machine_speed())
        shown = {"seconds": round(expected.seconds, 1), "bytes": expected.memory}
        typer.echo(json.dumps(made.to_json() | {"stages": _stage_rows(made), "estimate": shown}))
    elif out is None:
        _print_plan(made)
        typer.echo(f"a fit on this machine's CPU: {estimate_fit(made, described, machine_speed())}")
    else:
        announce(f"plan for epsilon {made.epsilon:.4g} written to {out}")


def _stage_rows(made: Any) -> list[dict[str, Any]]:
    from dpgm.synthesis.plan import describe, shares

    share = shares(made)
    return [
        dict(zip(("stage", "measures", "sensitivity"), describe(made, entry), strict=True))
        | {"mechanism": entry.name, "noise": entry.noise, "count": entry.count}
        | {"sampling_rate": entry.sampling_rate, "share": round(share[entry.name], 4)}
        for entry in made.mechanisms
    ]


def _print_plan(made: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Privacy plan (no data has been opened)", title_justify="left")
    for heading in ("stage", "what is measured", "sensitivity", "noise", "runs", "records", "share"):
        table.add_column(heading, justify="right" if heading in ("noise", "runs", "share") else "left")
    for row in _stage_rows(made):
        rate = "all" if row["sampling_rate"] == 1 else f"{row['sampling_rate']:.2%} per run"
        table.add_row(
            row["stage"],
            row["measures"],
            row["sensitivity"],
            f"{row['noise']:.5g}",
            f"{row['count']:,}",
            rate,
            f"{row['share']:.1%}",
        )
    console, rows = Console(), made.rows_per_person
    unit = "one record" if rows == 1 else f"one person with up to {rows} records"
    console.print(table)
    console.print(
        f"model {made.settings.model}; {made.records:,} records; composed epsilon = {figure(made.epsilon)} at delta ="
        f" {made.delta:.3g} ({made.adjacency} of {unit})"
    )


@app.command()
@takes_read_options
def fit(
    data: Data,
    options: "ReadOptions",
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Privacy budget; 1 is a usual choice.", rich_help_panel=_PRIVACY),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Release folder to write.", rich_help_panel=OUTPUT)
    ] = None,
    delta: Delta = None,
    clusters: Clusters = None,
    model: ModelName = "auto",
    preset: PresetName = "default",
    mean_length: MeanLength = None,
    public: Annotated[
        Path | None,
        typer.Option("--public", help="Public records for initial cluster centres.", rich_help_panel=_MODEL),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.", rich_help_panel=_MODEL)] = "auto",
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="A plan written by `dpgm plan --out`.", rich_help_panel=_PRIVACY)
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", help="Folder to save progress in; by default OUT.checkpoint.", rich_help_panel=_STOPPING
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit that was stopped.", rich_help_panel=_STOPPING)
    ] = False,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Budget ledger of this population.", rich_help_panel=_PRIVACY)
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Tests only: reproducible, NOT PRIVATE.")] = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", help="Sign the release with this private key (`dpgm keys create`).", rich_help_panel=_PRIVACY
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Fit a private generator and write its release.

    Example: dpgm fit visits.parquet --epsilon 1 --assume-public-items --out release
    """
    from dpgm.compute.parallel import place_of
    from dpgm.data.read.readers import read_records
    from dpgm.errors import ArtefactError, BudgetError, UsageError
    from dpgm.mechanisms.randomness import SeededRandomness
    from dpgm.privacy.ledger import Ledger
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.checkpoint import remove_checkpoint
    from dpgm.synthesis.plan import make_plan
    from dpgm.synthesis.strategies import check_model
    from dpgm.synthesis.synthesizer import Synthesizer

    if out is None:
        raise UsageError("`--out` is missing; name the release folder to write.")
    if epsilon is None and plan_file is None:
        raise UsageError("`--epsilon` is missing; 1 is a usual choice.")
    # What can be refused cheaply is refused before the file is read.
    folder = _default_checkpoint(out) if checkpoint is None else checkpoint
    _check_outputs(out, folder, force=force, resume=resume, sign=sign, seed=seed)
    planned = None if plan_file is None else _read_plan(plan_file, epsilon)
    budget = epsilon if planned is None else planned.target_epsilon
    request = Config(budget, delta, clusters, model, preset, mean_length)  # type: ignore[arg-type]
    check_model(model)
    if options.memory is not None and options.cache is None:
        options = replace(options, cache=out.absolute().parent)
    records, source = _read(data, options, quiet)
    if planned is not None:
        planned.check_complete(records.domain)
    near = None if public is None else read_records(public, replace(options, labels=None))
    synthesizer = Synthesizer(
        request.epsilon,
        delta,
        clusters,
        model,
        request.preset,
        device=device,
        randomness=None if seed is None else SeededRandomness(seed),
        mean_length=mean_length,
        memory=options.memory,
    )
    total = place_of(len(records))[1]
    if planned is None and not resume:
        planned = make_plan(replace(request, rows_per_person=source.rows_per_person), total, records.domain)
    if not quiet:
        _announce_fit(total, records.domain, planned, device, options)
    explained = (UsageError, ArtefactError, BudgetError)  # say by themselves what was spent and what to do
    with reporting_spent_budget(folder, unless=explained), bars(quiet) as progress:
        synthesizer.fit(
            records,
            public=near,
            plan=planned,
            source=source,
            ledger=Ledger.open(ledger) if ledger is not None and is_first() else None,
            checkpoint=folder,
            resume=resume,
            progress=progress,
        )
    if not is_first():
        return
    with reporting_spent_budget(folder):
        synthesizer.save(out, force=force, sign=sign)
    if checkpoint is None:
        remove_checkpoint(folder)
    if not quiet:
        _announce_release(out, synthesizer.certificate_, synthesizer.release_.domain)


def _check_outputs(
    out: Path, folder: Path, *, force: bool, resume: bool, sign: Path | None, seed: int | None
) -> None:
    """Refuse what cannot be written, and say so if nobody would be protected."""
    from dpgm.synthesis.checkpoint import check_folder
    from dpgm.synthesis.release import check_target

    refuse_pipe(out, "a release")
    if sign is not None:
        _check_signing(sign, seed)
    if is_first():  # of several processes the first one writes
        _clear_leftovers(out)
        check_target(out, force=force)
        check_folder(folder, resume=resume)
    if seed is not None:  # said even with --quiet
        announce("NOT PRIVATE: with --seed the noise can be computed again and taken off; for tests only.")


def _default_checkpoint(out: Path) -> Path:
    """Where a fit keeps its noisy answers until its release is written, if no folder was named."""
    return out.with_name(f"{out.name}.checkpoint")


def _clear_leftovers(out: Path) -> None:
    """Remove what a process left that was killed while it wrote this release or cleaned up after it."""
    from dpgm.data.atomic import remove_leftovers
    from dpgm.synthesis.checkpoint import MODEL_FILE, remove_checkpoint

    folder = _default_checkpoint(out)
    remove_leftovers(out)
    remove_leftovers(folder)
    with suppress(OSError):
        if (out / "model.safetensors").read_bytes() == (folder / MODEL_FILE).read_bytes():
            remove_checkpoint(folder)  # its release is written


def _check_signing(key: Path, seed: int | None) -> None:
    """A key that cannot be used is found before anything is spent."""
    from dpgm.errors import UsageError
    from dpgm.privacy.signatures import read_private_key

    read_private_key(key)
    if seed is not None:
        raise UsageError(
            "`--seed` makes a release NOT PRIVATE, and such a one is not signed; leave one of them out."
        )


def _read_plan(file: Path, epsilon: float | None) -> "Plan":
    from dpgm.errors import UsageError
    from dpgm.synthesis.plan import read_plan

    planned = read_plan(file)
    if epsilon is not None and epsilon != planned.target_epsilon:
        raise UsageError(f"the plan is for epsilon {planned.target_epsilon}; leave --epsilon out or plan again.")
    return planned


def _read(data: str, options: "ReadOptions", quiet: bool) -> "tuple[Records, Source]":
    """The share of the records that this process fits; the curator is told of items that one record alone holds."""
    from dpgm.data.inspect.inspection import rarity_warning
    from dpgm.data.read.readers import read_share

    if options.public_domain is not None:
        options.public_domain.refuse_draft()
    (path,) = read_stdin(data, look=False, format=options.format, folder=options.cache)
    records, source = read_share(path, options, *rank_and_size())
    from_data = source.items_assumed_public or records.domain.origin == "declared"
    if from_data and not quiet and (warning := rarity_warning(records)) is not None:
        announce(warning)
    return records, source


def _announce_fit(
    total: int, domain: "Domain", planned: "Plan | None", device: str, options: "ReadOptions"
) -> None:
    from dpgm.data.read.row_store import bytes_of
    from dpgm.synthesis.estimate import estimate_fit, machine_speed
    from dpgm.synthesis.synthesizer import choose_device

    announce(f"fitting {total:,} records of {domain.width:,} positions; nothing shown depends on them")
    if planned is not None and total * planned.target_epsilon < _FEW_RECORDS:
        announce(
            f"note: {total:,} records at epsilon {figure(planned.target_epsilon)} are so few that synthetic ones will"
            " hold little more than noise"
        )
    if planned is not None and choose_device(device) == "cpu":
        limit = None if options.memory is None else bytes_of(options.memory)
        expected = estimate_fit(planned, domain, machine_speed(), memory=limit, processes=rank_and_size()[1])
        announce(f"{expected} on a machine that does nothing else")


def _announce_release(out: Path, certificate: "Certificate", domain: "Domain") -> None:
    from dpgm.data.domain import Categorical
    from dpgm.synthesis.domain_discovery import NOTHING_FOUND

    empty = [
        repr(one.name) for one in domain.fields if isinstance(one, Categorical) and one.values == NOTHING_FOUND
    ]
    if empty:
        announce(
            f"note: no value of {', '.join(empty)} has enough people to be published, so samples hardly have any;"
            " list the values in the domain if they are public knowledge, or leave the column out (kind: ignored)"
        )
    marked = "" if certificate.private else "NOT PRIVATE, "
    announce(
        f"release written to {out}: {marked}epsilon = {figure(certificate.epsilon)}, "
        f"delta = {certificate.delta:.3g}, per {certificate.unit}. "
        f"Next: dpgm sample {out} --records {certificate.records} --out synthetic.parquet"
    )
