"""Commands that use releases: sample and demo."""

import sys
from pathlib import Path

import typer

from dpgm.cli.app import FORCE, OUTPUT, QUIET, app, argument, option, rank_and_size
from dpgm.cli.options import EPSILON, PRIVACY
from dpgm.cli.terminal import announce, bars, figure, is_pipe, print_errors, refuse_pipe


@app.command()
def sample(
    release: Path = argument("Release folder."),
    out: Path = option("--out -o", "File to write; its ending names the format (- for stdout).", ..., panel=OUTPUT),
    records: int | None = option("--records", "How many synthetic records; by default as many as were fitted."),
    seed: int | None = option("--seed", "Draw the same records again."),
    where: list[str] | None = option(
        "--where",
        "Only such records: milk, sex=female, age>=65, 'colour in [red, blue]'; repeatable.",
        metavar="CONDITION",
    ),
    shape: str | None = option("--shape", "basket, long or wide."),
    format: str | None = option(
        "--format", "Of --out -: csv (the default), tsv, jsonl, fimi or parquet.", panel=OUTPUT
    ),
    unverified: bool = option("--unverified", "Open the release even if `verify` refuses it.", False),
    force: bool = FORCE,
    quiet: bool = QUIET,
) -> None:
    """Draw synthetic records from a release; started by torchrun, each process writes a part into the folder --out.

    Example: dpgm sample release --records 100000 --out synthetic.parquet
    """
    from dpgm.data.read.readers import part_name, rows_of_share, seed_of_share
    from dpgm.errors import UsageError
    from dpgm.synthesis.release import load
    from dpgm.synthesis.sampling import write_sample

    stream = sys.stdout.buffer if is_pipe(out) else None
    if stream is not None:
        format = format or "csv"
    elif format is not None:
        raise UsageError("`--format` is for --out -; the ending of a file names its format.")
    opened = load(release, unverified=unverified)
    if unverified:
        announce(f"{release} was not verified; what its certificate says may be false")
    number, processes = rank_and_size()
    records = opened.certificate.records if records is None else records
    count, file = records, out
    if processes > 1:
        refuse_pipe(out, "what several processes sample")
        out.mkdir(parents=True, exist_ok=True)
        count, file = rows_of_share(records, number, processes), part_name(out, number, processes)
        seed = None if seed is None else seed_of_share(seed, number)
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
        )
    if stream is not None:
        stream.flush()
    if not quiet:
        kept = "" if rate is None or not where else f" ({rate:.2%} of the generator's records are like that)"
        announce(f"{records:,} synthetic records written to {'stdout' if stream is not None else out}{kept}")


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
    from dpgm.data.read.readers import read_records
    from dpgm.data.simulate import simulate_transit
    from dpgm.errors import CheckFailed, DiskError
    from dpgm.evaluation.evaluate import evaluate, summary_table
    from dpgm.report.html import write_report
    from dpgm.synthesis.release import load
    from dpgm.synthesis.sampling import write_sample
    from dpgm.synthesis.synthesizer import Synthesizer
    from dpgm.synthesis.verification import verify

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"{out}: the folder cannot be made; choose another place.") from error
    say = (lambda text: None) if quiet else announce

    say(f"1/5 simulating {records:,} people and the places they visit")
    real = simulate_transit(records=records, seed=0)
    real.write(out / "people.parquet")

    say(f"2/5 fitting at epsilon = {epsilon:g}")
    with bars(quiet) as progress:
        synthesizer = Synthesizer(epsilon=epsilon).fit(real, progress=progress)
    synthesizer.save(out / "release", force=True)

    say("3/5 verifying the certificate from the release folder alone")
    verification = verify(out / "release")
    if not verification.ok:
        raise CheckFailed(f"the release does not verify: {verification.failed[0].why}.")

    say(f"4/5 sampling {records:,} synthetic people from the release")
    release = load(out / "release")
    write_sample(release, records, out / "synthetic.parquet", force=True)

    say("5/5 comparing (curator only)")
    synthetic = read_records(out / "synthetic.parquet", domain=real.domain)
    certificate = release.certificate
    evaluation = evaluate(real, synthetic, epsilon=certificate.epsilon, delta=certificate.delta)
    write_report(evaluation, out / "report.html", certificate=certificate)
    title = "Relative error of counting queries of 1 to 4 places (0 = the real data)"
    print_errors(title, *summary_table(evaluation))
    typer.echo(f"epsilon = {figure(certificate.epsilon)}, delta = {certificate.delta:.3g}, verified")
    typer.echo(f"report: {out / 'report.html'}")
