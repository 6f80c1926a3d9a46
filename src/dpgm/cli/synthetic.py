"""Commands about releases: `sample`, `query`, `evaluate`; `rehearse` and `demo` show all steps on simulated data."""

import json
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
    option,
    printable,
    rank_and_size,
    starts_processes,
)
from dpgm.cli.options import EPSILON, PRIVACY, takes_read_options
from dpgm.cli.terminal import announce, bars, figure, is_pipe, print_table, read_stdin, refuse_pipe
from dpgm.data.atomic import atomic_file, check_output
from dpgm.errors import CheckFailed, DiskError, PrivacyWarning, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpgm.data.read.declared import Paths

_SHOWN_COLUMNS = 20


@app.command()
def sample(
    context: typer.Context,
    release: Path = argument("Release folder."),
    out: str = option(
        "--out -o",
        "File to write; its ending determines the format (- for stdout). Or a database: its file or address.",
        ...,
        panel=OUTPUT,
        metavar="FILE",
    ),
    table: str | None = option("--table", "Databases: the table to make.", panel=OUTPUT, metavar="NAME"),
    records: int | None = option("--records", "Number of synthetic records; by default as many as were fitted."),
    seed: int | None = option("--seed", "Seed: the same seed draws the same records."),
    where: list[str] | None = option(
        "--where",
        "Condition, such as milk, sex=female, age>=65 or 'colour in [red, blue]' (repeatable).",
        metavar="CONDITION",
    ),
    shape: str | None = option("--shape", "basket, long or wide."),
    persons: Path | None = option(
        "--persons",
        "Sequences: write the attributes of persons to this file, and their events without them.",
        metavar="FILE",
    ),
    format: str | None = option(
        "--format", "Format for --out -: csv (the default), tsv, jsonl, fimi or parquet.", panel=OUTPUT
    ),
    unverified: bool = option("--unverified", "Open the release even if `verify` refuses it.", False),
    processes: int = PROCESSES,
    force: bool = FORCE,
    quiet: bool = QUIET,
) -> None:
    """Draw synthetic records from a release; of several processes, each writes a part into the folder --out.

    Example: dpgm sample release --records 100000 --out synthetic.parquet
    """
    import numpy as np

    from dpgm.synthesis.sampling import write_sample

    if starts_processes(context, processes):
        return
    stream = sys.stdout.buffer if is_pipe(out) else None
    if stream is not None:
        format = format or "csv"
    elif format is not None:
        raise UsageError("`--format` is for --out -; the ending of a file names its format.")
    opened = dpgm.load(release, unverified=unverified)
    if unverified:
        announce(f"{release} was not verified; what its certificate says may be false")
    number, ranks = rank_and_size()
    records = opened.certificate.records if records is None else records
    count, file, first = records, out if table is None else f"{out}::{table}", 0
    if ranks > 1 and persons is not None:
        raise UsageError("`--persons` is for one process; leave out one of the two.")
    if ranks > 1 and table is not None:
        raise UsageError("`--table` is for one process; leave out one of the two.")
    if ranks > 1:
        refuse_pipe(out, "what several processes sample")
        Path(out).mkdir(parents=True, exist_ok=True)
        file = f"{out}/part-{number:05d}-of-{ranks:05d}.parquet"
        first = records * number // ranks
        count = records * (number + 1) // ranks - first
        seed = None if seed is None else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with bars(quiet) as progress:
        rate = write_sample(
            opened,
            count,
            file,
            seed=seed,
            where=where or [],
            shape=shape,
            force=force,
            progress=progress,
            stream=stream,
            format=format,
            persons=persons,
            first=first,
        )
    if stream is not None:
        stream.flush()
    if not quiet:
        note = "" if rate is None or not where else f" ({rate:.2%} of the generator's records meet the conditions)"
        announce(
            f"{counted(records, 'synthetic record')} written to {'stdout' if stream is not None else file}{note}"
        )


@app.command()
def query(
    release: Path = argument("Release folder."),
    questions: list[str] = argument("Conditions, such as 'age >= 65 and sex = f'; each is answered."),
    as_json: bool = AS_JSON,
) -> None:
    """Estimate how many records meet a condition, with a 95 % interval; costs no budget.

    Example: dpgm query release 'age >= 65 and sex = f'
    """
    from dpgm.synthesis.answers import CountAnswers

    answers = CountAnswers(dpgm.load(release))
    found = [answers.ask(question) for question in questions]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False))
        return
    for one in found:
        typer.echo(f"{printable(one.question)}: about {one.estimate:,.0f} records")
        if one.low is None or one.high is None:
            typer.echo(f"  from {one.source}; {one.why}")
        else:
            typer.echo(f"  95 % interval {one.low:,.0f} to {one.high:,.0f}, from {one.source}")


@app.command()
def demo(
    out: Path = option("--out", "Folder for data, release and report.", Path("demo"), panel=OUTPUT),
    records: int = option("--records", "Simulated people.", 50_000),
    epsilon: float = option(*EPSILON, 1.0, panel=PRIVACY),
    quiet: bool = QUIET,
) -> None:
    """Simulate, fit, sample, verify and evaluate; prints where the report is.

    Example: dpgm demo --out demo
    """
    from dpgm.evaluation.evaluate import summary_table
    from dpgm.synthesis.sampling import write_sample

    _make_folder(out)
    say = (lambda text: None) if quiet else announce

    say(f"1/5 simulating {records:,} people and the places they visit")
    real = dpgm.simulate_transit(records=records, seed=0)
    real.write(out / "people.parquet")

    say(f"2/5 fitting at epsilon = {epsilon:g}")
    with bars(quiet) as progress:
        synthesizer = dpgm.Synthesizer(epsilon=epsilon).fit(real, progress=progress)
    synthesizer.save(out / "release", force=True)

    say("3/5 verifying the certificate from the release folder alone")
    verification = dpgm.verify(out / "release")
    if not verification.ok:
        raise CheckFailed(f"the release does not verify: {verification.failed[0].why}.")

    say(f"4/5 sampling {records:,} synthetic people from the release")
    release = dpgm.load(out / "release")
    write_sample(release, records, out / "synthetic.parquet", force=True)

    say("5/5 comparing (curator only)")
    synthetic = dpgm.read_records(out / "synthetic.parquet", domain=real.domain)
    certificate = release.certificate
    evaluation = dpgm.evaluate(real, synthetic, epsilon=certificate.epsilon, delta=certificate.delta)
    dpgm.write_report(evaluation, out / "report.html", certificate=certificate)
    title = "Relative error of counting queries of 1 to 4 places (0 = the real data)"
    print_table(title, *summary_table(evaluation))
    typer.echo(f"epsilon = {figure(certificate.epsilon)}, delta = {certificate.delta:.3g}, verified")
    typer.echo(f"report: {out / 'report.html'}")


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"{out}: the folder cannot be made; choose another place.") from error


@app.command()
def rehearse(
    domain: Path = option("--domain", "Domain file (YAML or JSON) of the fit that is rehearsed.", ...),
    records: int = option("--records", "Public number of records.", ...),
    epsilon: float = option(*EPSILON, 1.0, panel=PRIVACY),
    out: Path = option("--out", "Folder for people, release, sample and report.", Path("rehearsal"), panel=OUTPUT),
    seed: int = option("--seed", "Seed of the made-up people.", 0),
    force: bool = FORCE,
    quiet: bool = QUIET,
) -> None:
    """Go the whole way on made-up people of the same kind and number: it shows what to expect, and costs nothing.

    Example: dpgm rehearse --domain domain.yaml --records 5000 --epsilon 1 --out rehearsal
    """
    from dpgm.data.made_up import write_made_up
    from dpgm.evaluation.evaluate import evaluate_inputs
    from dpgm.evaluation.file_inputs import file_inputs
    from dpgm.synthesis.sampling import write_sample

    described = dpgm.load_domain(domain).declared_public()  # nobody's values: the people are made up
    if out.exists() and not force:
        raise UsageError(f"{out} exists already; choose another name or pass `force=True`.")
    people, synthetic = out / "people.parquet", out / "synthetic.parquet"
    _make_folder(out)
    write_made_up(described, records, people, seed=seed)
    options = dpgm.ReadOptions(domain=described)
    with warnings.catch_warnings(), bars(quiet) as progress:
        warnings.simplefilter("ignore", PrivacyWarning)  # about identifiers of people who do not exist
        read, source = dpgm.read_source(people, options)
        synthesizer = dpgm.Synthesizer(epsilon)
        about = dpgm.About(title="Rehearsal on made-up people")
        synthesizer.fit(read, source=source, about=about, progress=progress)
        synthesizer.save(out / "release", force=True)
        write_sample(synthesizer.release_, records, synthetic, force=True)
        evaluation = evaluate_inputs(file_inputs(people, synthetic, options), epsilon=epsilon)
    dpgm.write_report(evaluation, out / "report.html", certificate=synthesizer.certificate_)
    with atomic_file(out / "evaluation.json") as temporary:
        temporary.write_text(evaluation.to_json(), "utf-8")
    if not quiet:
        print_evaluation(evaluation)
        announce(f"rehearsed on {records:,} made-up people in {out}; nobody is in it, and nothing was spent")


@app.command()
@takes_read_options
def evaluate(
    real: str = argument("The real data (- for stdin); the reading options describe this file."),
    synthetic: str = argument("Synthetic records, as `dpgm sample` wrote them (- for stdin)."),
    *,
    options: "dpgm.ReadOptions",
    out: Path | None = option("--out -o", "HTML report to write (- for stdout).", panel=OUTPUT),
    json_output: str | None = option(
        "--json",
        "The numbers as JSON: printed, or written to FILE.json.",
        panel=OUTPUT,
        metavar="[FILE.json]",
    ),
    release: Path | None = option("--release", "The release: its domain is used and its guarantee explained."),
    workload: Path | None = option("--workload", "Your own queries: one per line, items separated by commas."),
    test: str | None = option("--test", "Real records that were not fitted, for downstream accuracy."),
    test_labels: Path | None = option("--test-labels", "Labels of --test (idx)."),
    mwem: bool = option("--mwem", "Compare with MWEM as well.", False),
    epsilon: float | None = option("--epsilon", "Budget of the baselines; by default the release's, else 1."),
    seed: int = option("--seed", "Seed of random queries and splits.", 0),
    force: bool = FORCE,
    quiet: bool = QUIET,
) -> None:
    """Compare real and synthetic records; the result is for the curator only.

    Example: dpgm evaluate visits.parquet synthetic.parquet --release release --out report.html
    """
    from dpgm.evaluation.evaluate import INDEPENDENT, evaluate_inputs
    from dpgm.evaluation.file_inputs import file_inputs, read_alike
    from dpgm.privacy.certificate import read_certificate
    from dpgm.synthesis.verification import stated_domain

    _check_outputs(out, json_output, force, (real, synthetic, test, workload, options.labels, test_labels))
    certificate = None if release is None else read_certificate(release)
    if options.domain is None and certificate is not None and release is not None:
        # A domain that was discovered privately lacks rare values of the real data; the stated one does not.
        released, stated = dpgm.load_domain(release / "domain.json"), stated_domain(certificate)
        options = replace(options, domain=released if stated is None else replace(stated, layout=released.layout))
    first_file, second_file = read_stdin(real, synthetic, detect_format=True, folder=options.cache)
    inputs = file_inputs(first_file, second_file, options)
    first = inputs.real
    held_out = (
        None
        if test is None
        else read_alike(first.domain, test, replace(options, labels=test_labels, table=None, query=None)).records
    )
    queries = None if workload is None else dpgm.read_workload(workload, first.domain)
    budget = epsilon if epsilon is not None else 1.0 if certificate is None else certificate.epsilon
    delta = None if certificate is None else certificate.delta
    others = None
    if mwem:
        others = {
            INDEPENDENT: dpgm.IndependentMarginals(budget, delta).fit(first).sample(len(first), seed=seed),
            "MWEM": dpgm.Mwem(budget, delta).fit(first).sample(len(first), seed=seed),
        }
    made = evaluate_inputs(
        inputs, test=held_out, queries=queries, baselines=others, epsilon=budget, delta=delta, seed=seed
    )
    _write(made, certificate, out, json_output, quiet)


def _json_file(json_output: str | None) -> Path | None:
    return None if json_output is None or is_pipe(json_output) else Path(json_output)


def _check_outputs(
    out: Path | None, json_output: str | None, force: bool, inputs: "Sequence[Paths | None]"
) -> None:
    if is_pipe(out) and is_pipe(json_output):
        raise UsageError("--out and --json both go to stdout; name a file for one of them.")
    json_file = _json_file(json_output)
    for path in (out, json_file):
        if path is not None and not is_pipe(path):
            check_output(path, force=force, inputs=inputs)
    if out is not None and out == json_file:
        raise UsageError("--out and --json name the same file; give two names.")


def _write(
    made: "dpgm.Evaluation",
    certificate: "dpgm.Certificate | None",
    out: Path | None,
    json_output: str | None,
    quiet: bool,
) -> None:
    """Write the report and the numbers, each to its file or to stdout; else print the verdict."""
    from dpgm.report.html import render_report

    json_file = _json_file(json_output)
    if json_file is not None:
        with atomic_file(json_file) as temporary:
            temporary.write_text(made.to_json(), encoding="utf-8")
    if is_pipe(out):
        typer.echo(render_report(made, certificate=certificate), nl=False)
    elif out is not None:
        dpgm.write_report(made, out, certificate=certificate)
    if is_pipe(json_output):
        typer.echo(made.to_json(), nl=False)
    elif not quiet and not is_pipe(out):
        print_evaluation(made)
    if not quiet:
        written = [str(path) for path in (out, json_file) if path is not None and not is_pipe(path)]
        where = ": " + ", ".join(written) if written else " (an HTML report with --out FILE, numbers with --json)"
        announce(f"curator only, computed on the real data{where}")


def print_evaluation(made: "dpgm.Evaluation") -> None:
    """Print the verdict, a table of the columns, and the errors of each method."""
    from rich.console import Console
    from rich.markup import escape

    from dpgm.evaluation.evaluate import summary_table
    from dpgm.evaluation.verdict import verdict

    judged = verdict(made)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(printable(judged.headline))}[/]  (curator only)")
    for mark, text in judged.marked:
        console.print(f"  {mark:>4}  {escape(printable(text))}")
    if made.columns:
        print_columns(made)
    title = "mean relative error of popular counts of N items or values (popN); distance of record lengths"
    print_table(title, *summary_table(made))


def print_columns(made: "dpgm.Evaluation") -> None:
    """Print raw values of every column, real and synthetic, the worst columns first."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from dpgm.evaluation.raw_columns import figure_text
    from dpgm.evaluation.row_checks import columns_off
    from dpgm.evaluation.words import share_text

    off = columns_off(made)
    fine = [column for column in made.columns if column not in off]
    listed = (*off, *fine)
    table = Table(title="raw values, real -> synthetic", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("column", no_wrap=True, max_width=20)
    for name in ("median", "share of the most frequent", "missing", "distance"):
        table.add_column(name, justify="right")
    table.add_column("")
    for column in listed[:_SHOWN_COLUMNS]:
        middles = [
            figure_text(column.kind, side.median) if side.quantiles else ""
            for side in (column.real, column.synthetic)
        ]
        shares = _change(share_text(column.real_mode_share), share_text(column.synthetic_mode_share))
        table.add_row(
            escape(printable(column.name)),
            _change(*middles),
            f"{escape(printable(column.mode)[:14])}: {shares}",
            _change(share_text(column.real.missing), share_text(column.synthetic.missing)),
            f"{column.distance:.3f}",
            "off" if column.off else "",
        )
    Console().print(table)
    if len(listed) > _SHOWN_COLUMNS:
        announce(
            f"{counted(len(listed) - _SHOWN_COLUMNS, 'more column is', 'more columns are')} in the report (--out FILE)"
        )


def _change(real: str, synthetic: str) -> str:
    return real if real == synthetic else f"{real} -> {synthetic}"
