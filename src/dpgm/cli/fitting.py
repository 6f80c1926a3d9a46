"""Commands that make releases: `plan` and `fit`."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import dpgm
from dpgm.cli.app import (
    AS_JSON,
    FORCE,
    OUTPUT,
    PROCESSES,
    QUIET,
    app,
    argument,
    is_first,
    option,
    rank_and_size,
    starts_processes,
)
from dpgm.cli.options import EPSILON, GENERATOR, PRIVACY, takes_about, takes_read_options, takes_request
from dpgm.cli.terminal import (
    announce,
    bars,
    figure,
    is_pipe,
    print_table,
    read_stdin,
    refuse_pipe,
    reporting_spent_budget,
)
from dpgm.data.atomic import atomic_file, check_output, remove_leftovers
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.strategy.protocol import Progress

_FEW_RECORDS = 300  # records x epsilon below which noise is as large as most counts of a table (guides/pitfalls.md)
_STOPPING = "Stopping and resuming"  # a group of options in help


@app.command()
@takes_request
def plan(
    *,
    epsilon: float | None = option(*EPSILON, panel=PRIVACY),
    records: int = option("--records", "Public number of records.", ...),
    request: Callable[..., "dpgm.Config"],
    domain: Path | None = option("--domain", "Domain file (YAML or JSON)."),
    items: int | None = option("--items", "Number of items, in place of --domain."),
    rows_per_person: int = option("--rows-per-person", "Most records of one person.", 1, metavar="K"),
    forecast: bool = option("--forecast", "Say how far off counts will be, from a fit of made-up people.", False),
    visible: int | None = option(
        "--visible",
        "In place of --epsilon: the smallest group whose count shall be right within a tenth.",
        metavar="G",
    ),
    mean_items: float | None = option("--mean-items", "Public mean number of items of a person, for --forecast."),
    as_json: bool = AS_JSON,
    rules: bool = option("--rules", "Print every tuned number of the plan, as JSON.", False),
    out: Path | None = option("--out", "File to write the plan to, for `fit --plan`.", panel=OUTPUT),
    force: bool = FORCE,
) -> None:
    """Show the privacy plan before any data is opened.

    Example: dpgm plan --epsilon 1 --records 100000
    """
    from dpgm.data.stores import size_text
    from dpgm.synthesis.forecast import accurate_enough
    from dpgm.synthesis.forecast import forecast as forecast_errors
    from dpgm.synthesis.memory import memory_of_fit
    from dpgm.synthesis.plan import expectations

    if (epsilon is None) == (visible is None):
        raise UsageError("give --epsilon, or --visible with the group that must be visible.")

    if out is not None:
        check_output(out, force=force, inputs=(domain,))
    if domain is not None and items is not None:
        raise UsageError("give --domain or --items, not both.")
    described = None if domain is None else dpgm.load_domain(domain)
    if items is not None:
        described = dpgm.Domain.of_items(items)
    expected = None
    if visible is not None:
        start = request(1.0, rows_per_person=rows_per_person)
        expected = accurate_enough(start, records, _known(described), visible, mean_length=mean_items)
        epsilon = expected.epsilon
    assert epsilon is not None  # narrowed above
    config = request(epsilon, rows_per_person=rows_per_person)
    made = dpgm.make_plan(config, records, described)
    if forecast and expected is None:
        expected = forecast_errors(config, records, _known(described), mean_length=mean_items)
    if out is not None:
        with atomic_file(out) as temporary:
            temporary.write_text(json.dumps(made.to_json(), indent=1) + "\n", "utf-8")
    if rules:
        typer.echo(json.dumps(made.settings.to_json(), indent=1))
    elif as_json:
        needed = {"memory_bytes": memory_of_fit(made, described), "expectations": expectations(made, described)}
        told = {} if expected is None else {"forecast": expected.to_json()}
        typer.echo(json.dumps(made.to_json() | {"stages": _stage_rows(made)} | needed | told))
    elif out is None:
        _print_plan(made)
        for sentence in expectations(made, described):
            typer.echo(sentence)
        typer.echo(f"memory of a fit on a CPU: about {size_text(memory_of_fit(made, described))}")
    else:
        announce(f"plan for epsilon {made.epsilon:.4g} written to {out}")
    if expected is not None and not as_json and not rules:
        for sentence in expected.sentences:
            typer.echo(f"- {sentence}")


def _known(domain: "dpgm.Domain | None") -> "dpgm.Domain":
    if domain is None:
        raise UsageError("a forecast needs to know the fields; give --domain or --items.")
    return domain


def _stage_rows(made: "dpgm.Plan") -> list[dict[str, Any]]:
    from dpgm.synthesis.plan import budget_shares, describe

    share = budget_shares(made)
    return [
        dict(zip(("stage", "measures", "sensitivity"), describe(made, entry), strict=True))
        | {"mechanism": entry.name, "noise": entry.noise, "count": entry.count}
        | {"sampling_rate": entry.sampling_rate, "share": round(share[entry.name], 4)}
        for entry in made.mechanisms
    ]


def _print_plan(made: "dpgm.Plan") -> None:
    from rich.console import Console

    rows = [
        (
            row["stage"],
            row["measures"],
            row["sensitivity"],
            f"{row['noise']:.5g}",
            f"{row['count']:,}",
            "all" if row["sampling_rate"] == 1 else f"{row['sampling_rate']:.2%} per run",
            f"{row['share']:.1%}",
        )
        for row in _stage_rows(made)
    ]
    columns = ("stage", "what is measured", "sensitivity", "noise", "runs", "records", "share")
    title = "Privacy plan (no data has been opened)"
    print_table(title, columns, rows, left=("what is measured", "sensitivity", "records"))
    most = made.rows_per_person
    unit = "one record" if most == 1 else f"one person with up to {most} records"
    Console().print(
        f"model {made.settings.model}; {counted(made.records, 'record')}; composed epsilon = {figure(made.epsilon)} at"
        f" delta = {made.delta:.3g} ({made.adjacency} of {unit})"
    )


@app.command()
@takes_read_options
@takes_request
@takes_about
def fit(
    context: typer.Context,
    data: str | None = argument(
        "The data file (archive.zip::member for one in a zip, - for stdin); none with --sums.", None, metavar="DATA"
    ),
    *,
    options: "dpgm.ReadOptions",
    epsilon: float | None = option(*EPSILON, panel=PRIVACY),
    out: Path | None = option("--out -o", "Release folder to write.", panel=OUTPUT),
    sums: Path | None = option(
        "--sums", "Folder of the parts that `dpgm measure` wrote, in place of DATA.", panel="Rows in several places"
    ),
    key: Path | None = option(
        "--key", "With --sums: the private key that opens them.", panel="Rows in several places"
    ),
    request: Callable[..., "dpgm.Config"],
    public: Path | None = option("--public", "Public records to start clusters from.", panel=GENERATOR),
    device: str = option("--device", "auto, cpu or cuda.", "auto", panel=GENERATOR),
    plan_file: Path | None = option("--plan", "A plan written by `dpgm plan --out`.", panel=PRIVACY),
    checkpoint: Path | None = option(
        "--checkpoint", "Folder in which progress is saved; by default OUT.checkpoint.", panel=_STOPPING
    ),
    resume: bool = option("--resume", "Resume a fit that was stopped.", False, panel=_STOPPING),
    ledger: Path | None = option("--ledger", "Budget ledger of this population.", panel=PRIVACY),
    events: Path | None = option(
        "--events", "Also write progress to this file, a line of JSON each: public numbers only.", panel=OUTPUT
    ),
    stop_with_stdin: bool = option(
        "--stop-with-stdin", "Stop, to be resumed, when standard input closes.", False, panel=_STOPPING
    ),
    seed: int | None = option("--seed", "For tests only: reproducible noise, NOT PRIVATE."),
    sign: Path | None = option(
        "--sign", "Sign the release with this private key (`dpgm keys create`).", panel=PRIVACY
    ),
    about: "dpgm.About",
    after_looking: bool = option(
        "--after-looking",
        "Settings were chosen after an earlier release was compared with these data; the certificate says so.",
        False,
        panel=PRIVACY,
    ),
    processes: int = PROCESSES,
    force: bool = FORCE,
    quiet: bool = QUIET,
) -> None:
    """Fit a private generator and write its release.

    Example: dpgm fit visits.parquet --epsilon 1 --assume-public-items --out release
    """
    if starts_processes(context, processes):
        return
    from dpgm.kernels.agreement import all_or_none
    from dpgm.kernels.parallel import total_rows
    from dpgm.synthesis.checkpoint import remove_checkpoint
    from dpgm.synthesis.joint import plan_of_first

    if out is None:
        raise UsageError("`--out` is missing; name the release folder to write.")
    if epsilon is None and plan_file is None:
        raise UsageError("`--epsilon` is missing; 1 is a usual choice.")
    folder = _default_checkpoint(out) if checkpoint is None else checkpoint
    if stop_with_stdin:
        _stop_with_stdin(data)
    if sums is not None:
        _fit_sums(
            sums, key, plan_file, options, out, folder, keep=checkpoint is not None, data=data, ledger=ledger,
            sign=sign, seed=seed, force=force, quiet=quiet,
        )  # fmt: skip
        return
    if data is None:
        raise UsageError("DATA is missing; name the file to fit.")
    with all_or_none():
        # Refuse what can be refused cheaply before the file is read.
        _check_outputs(out, folder, force=force, resume=resume, sign=sign, seed=seed)
        planned = None if plan_file is None else _read_plan(plan_file, epsilon)
        if planned is not None and ledger is not None and is_first() and not resume:
            dpgm.Ledger.open(ledger).check_room(planned.mechanisms)
        config = request(epsilon if planned is None else planned.target_epsilon)
        synthesizer = _synthesizer(config, device, seed, options)
        if options.memory is not None:
            options.refuse_beyond_memory(data, 0, "leave `memory` out")
            options = replace(options, cache=options.cache or out.absolute().parent)
        made = None if planned is None else planned.to_json()
    records, source = _read(data, options, quiet, {"plan": made, "resume": resume, "seed": seed} | vars(config))
    with all_or_none():
        if planned is not None:
            planned.check_complete(records.domain)
        public_records = None if public is None else dpgm.read_records(public, replace(options, labels=None))
    total = total_rows(len(records))
    if planned is None and not resume:
        config = replace(config, rows_per_person=source.rows_per_person)
        planned = plan_of_first(lambda: dpgm.make_plan(config, total, records.domain))
    with all_or_none():
        needed = None if planned is None else _memory_needed(planned, records.domain, device, options, source)

    def announce_start() -> None:
        _announce_fit(total, records.domain, planned, needed)
        if source.like_persons:
            announce(
                f"this fit protects rows, not persons ({', '.join(map(repr, source.like_persons))}; see above)"
            )

    explained = (UsageError, ArtefactError, BudgetError)  # their messages say what was spent and what to do
    with reporting_spent_budget(folder, unless=explained), bars(quiet, events) as progress:
        synthesizer.fit(
            records,
            public=public_records,
            plan=planned,
            source=source,
            ledger=dpgm.Ledger.open(ledger) if ledger is not None and is_first() else None,
            checkpoint=folder,
            resume=resume,
            about=about,
            after_looking=after_looking,
            progress=progress if quiet else _after(announce_start, progress),
        )
    if not is_first():
        return
    with reporting_spent_budget(folder):
        synthesizer.save(out, force=force, sign=sign)
    if checkpoint is None:
        remove_checkpoint(folder)
    if not quiet:
        _announce_release(out, synthesizer.certificate_, synthesizer.release_.domain)


def _stop_with_stdin(data: str | None) -> None:
    """Interrupt this process, as Ctrl-C would, once whoever started it closes its standard input."""
    import os
    import signal
    import threading

    if is_pipe(data):
        raise UsageError("the data come from standard input; leave `stop_with_stdin` out or name a file.")

    def wait() -> None:
        while os.read(0, 1024):  # not through sys.stdin, which a thread would keep locked at the end
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def _fit_sums(
    sums: Path,
    key: Path | None,
    plan_file: Path | None,
    options: "dpgm.ReadOptions",
    out: Path,
    folder: Path,
    *,
    keep: bool,
    data: str | None,
    ledger: Path | None,
    sign: Path | None,
    seed: int | None,
    force: bool,
    quiet: bool,
) -> None:
    """Fit the parts in a folder, and write the release once those of the last round are there."""
    from dpgm.cli.parts import fit_of_sums
    from dpgm.privacy.keys import read_private_key
    from dpgm.synthesis.checkpoint import HEADER_FILE, remove_checkpoint

    if data is not None or seed is not None:
        raise UsageError("`--sums` takes the place of DATA, and has no `--seed`; leave them out.")
    if plan_file is None:
        raise UsageError("`--plan` is missing: the plan that the places measured by (`dpgm plan --out`).")
    _check_outputs(out, folder, force=force, resume=(folder / HEADER_FILE).exists(), sign=sign, seed=seed)
    planned = _read_plan(plan_file, None)
    with reporting_spent_budget(folder, unless=(UsageError, ArtefactError, BudgetError)):
        release = fit_of_sums(sums, planned, options, key, checkpoint=folder, ledger=ledger, quiet=quiet)
    if release is None:
        return
    release.save(out, force=force, key=None if sign is None else read_private_key(sign))
    if not keep:
        remove_checkpoint(folder)
    if not quiet:
        _announce_release(out, release.certificate, release.domain)


def _after(announce_start: Callable[[], None], progress: "Progress") -> "Progress":
    """The progress callback, preceded by an announcement once a fit was not refused and its first stage begins."""
    pending = [announce_start]

    def report(stage: str, done: int, total: int) -> None:
        while pending:
            pending.pop()()
        progress(stage, done, total)

    return report


def _synthesizer(
    config: "dpgm.Config", device: str, seed: int | None, options: "dpgm.ReadOptions"
) -> "dpgm.Synthesizer":
    from dpgm.mechanisms.randomness import SeededRandomness

    return dpgm.Synthesizer(
        config.epsilon,
        config.delta,
        config.clusters,
        config.model,
        config.preset,
        device=device,
        randomness=None if seed is None else SeededRandomness(seed),
        mean_length=config.mean_length,
        memory=options.memory,
    )


def _check_outputs(
    out: Path, folder: Path, *, force: bool, resume: bool, sign: Path | None, seed: int | None
) -> None:
    """Refuse outputs that cannot be written, and announce that a seeded fit protects nobody."""
    from dpgm.synthesis.checkpoint import check_folder
    from dpgm.synthesis.release import check_target

    refuse_pipe(out, "a release")
    if sign is not None:
        _check_signing(sign, seed)
    if is_first():  # the process that writes
        _clear_leftovers(out)
        if resume and (out / "certificate.json").is_file() and not folder.exists():
            raise UsageError(
                f"{out} is finished, so there is nothing to resume: draw from it with `dpgm sample {out}`. Another fit"
                " (without --resume, to another --out or with --force) is charged again."
            )
        check_target(out, force=force)
        check_folder(folder, resume=resume)
    if seed is not None:  # announced even with --quiet
        announce("NOT PRIVATE: with --seed the noise can be recomputed and removed; for tests only.")


def _default_checkpoint(out: Path) -> Path:
    """The checkpoint folder if none is named: it is removed once the release is written."""
    return out.with_name(f"{out.name}.checkpoint")


def _clear_leftovers(out: Path) -> None:
    """Remove files that were left when an earlier process was killed while it wrote or cleaned up this release."""
    from dpgm.synthesis.checkpoint import MODEL_FILE, remove_checkpoint

    folder = _default_checkpoint(out)
    remove_leftovers(out)
    remove_leftovers(folder)
    with suppress(OSError):
        if (out / "model.safetensors").read_bytes() == (folder / MODEL_FILE).read_bytes():
            remove_checkpoint(folder)  # its release is written


def _check_signing(key: Path, seed: int | None) -> None:
    """Refuse a key that cannot be used, before anything is spent."""
    from dpgm.privacy.keys import read_private_key

    read_private_key(key)
    if seed is not None:
        raise UsageError(
            "`--seed` makes a release NOT PRIVATE, which cannot be signed; leave out --seed or --sign."
        )


def _read_plan(file: Path, epsilon: float | None) -> "dpgm.Plan":
    planned = dpgm.read_plan(file)
    if epsilon is not None and epsilon != planned.target_epsilon:
        raise UsageError(f"the plan is for epsilon {planned.target_epsilon}; leave --epsilon out or plan again.")
    return planned


def _read(
    data: str, options: "dpgm.ReadOptions", quiet: bool, request: Mapping[str, Any]
) -> "tuple[dpgm.Records, dpgm.Source]":
    """The records that this process fits; the curator is warned of items that only one record has.

    Several processes compare their `request`, how they read and what, since each reads its share by itself.
    """
    from dpgm.data.inspection import rarity_warning
    from dpgm.data.read.readers import read_share
    from dpgm.synthesis.joint import reading_together

    if options.public_domain is not None:
        options.public_domain.refuse_draft()
    (path,) = read_stdin(data, detect_format=False, format=options.format, folder=options.cache)
    with reading_together(path, options, request):
        records, source = read_share(path, options, *rank_and_size())
    from_data = source.items_assumed_public or records.domain.origin == "declared"
    if from_data and not quiet and (warning := rarity_warning(records)) is not None:
        announce(warning)
    return records, source


def _memory_needed(
    planned: "dpgm.Plan", domain: "dpgm.Domain", device: str, options: "dpgm.ReadOptions", source: "dpgm.Source"
) -> int | None:
    """The bytes of memory of the fit on a CPU; refuses a fit that needs more than it is allowed."""
    from dpgm.data.stores import bytes_of
    from dpgm.synthesis.memory import check_limit, memory_of_fit
    from dpgm.synthesis.synthesizer import choose_device

    if choose_device(device) != "cpu":
        return None
    limit = None if options.memory is None else bytes_of(options.memory)
    processes, grouped = rank_and_size()[1], source.shape == "long"
    needed = memory_of_fit(planned, domain, limit=limit, processes=processes, grouped=grouped)
    if limit is not None:
        check_limit(needed, limit)
    return needed


def _announce_fit(total: int, domain: "dpgm.Domain", planned: "dpgm.Plan | None", needed: int | None) -> None:
    from dpgm.data.stores import size_text
    from dpgm.synthesis.plan import expectations

    positions = f"{counted(domain.width, 'position')} each"
    size = "what the domain leaves open is found privately" if domain.is_open else positions
    announce(f"fitting {counted(total, 'record')}: {size}; nothing printed depends on their values")
    if planned is not None and total * planned.target_epsilon < _FEW_RECORDS:
        announce(
            f"note: {total:,} records at epsilon {figure(planned.target_epsilon)} are so few that synthetic records"
            " will be little more than noise"
        )
    for sentence in () if planned is None else expectations(planned, domain):
        announce(f"note: {sentence}")
    if needed is not None:
        announce(f"this needs about {size_text(needed)} of memory")


def _announce_release(out: Path, certificate: "dpgm.Certificate", domain: "dpgm.Domain") -> None:
    from dpgm.data.labels import OTHER

    empty = [repr(one.name) for one in domain.fields if one.values == (OTHER,)]
    if empty:
        announce(
            f"note: no value of {', '.join(empty)} has enough people to be published, so samples have {OTHER!r} for all"
            " of them; list the values in the domain if they are public knowledge, or leave the column out (kind:"
            " ignored, or kind: identifier if samples need keys)"
        )
    marked = "" if certificate.private else "NOT PRIVATE, "
    ending = ".npz" if domain.image is not None else ".parquet"
    announce(
        f"release written to {out}: {marked}epsilon = {figure(certificate.epsilon)}, "
        f"delta = {certificate.delta:.3g}, per {certificate.unit}. "
        f"Next: dpgm sample {out} --records {certificate.records} --out synthetic{ending}"
    )
