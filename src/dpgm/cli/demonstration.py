"""The demo: everything a custodian and a recipient do, on simulated people."""

from pathlib import Path

import typer

from dpgm.cli.progress import announce, bars, figure


def run_demo(out: Path, records: int, epsilon: float, quiet: bool) -> None:
    """Simulate, fit, sample, verify, evaluate; everything lands in `out`."""
    from dpgm.data.readers import read_records
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
    header, rows = summary_table(evaluation)
    _print_table(header, rows)
    typer.echo(f"epsilon = {figure(certificate.epsilon)}, delta = {certificate.delta:.3g}, verified")
    typer.echo(f"report: {out / 'report.html'}")


def _print_table(header: tuple[str, ...], rows: list[tuple[str | float | None, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="Relative error of counting queries of 1 to 4 places (0 = the real data)", title_justify="left"
    )
    for name in header:
        table.add_column(name, justify="left" if name == header[0] else "right")
    for row in rows:
        table.add_row(*("-" if cell is None else cell if isinstance(cell, str) else f"{cell:.3f}" for cell in row))
    Console().print(table)
