"""Commands about evaluation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dpgm.cli import reading
from dpgm.cli.app import app
from dpgm.cli.progress import announce


@app.command()
def evaluate(
    real: Annotated[str, typer.Argument(help="The real data; the reading options describe this file.")],
    synthetic: Annotated[str, typer.Argument(help="Synthetic records, as `dpgm sample` wrote them.")],
    out: Annotated[Path | None, typer.Option("--out", help="HTML report to write.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the same numbers for machines.")] = None,
    release: Annotated[
        Path | None, typer.Option("--release", help="The release: its domain is used and its guarantee explained.")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option("--workload", help="Your own queries: one a line, items separated by commas.")
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", help="Real records set apart before the fit, for downstream accuracy.")
    ] = None,
    test_labels: Annotated[Path | None, typer.Option("--test-labels", help="Labels of --test (idx).")] = None,
    mwem: Annotated[bool, typer.Option("--mwem", help="Compare with MWEM as well.")] = False,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Budget of the baselines; by default the release's, else 1.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of queries and splits.")] = 0,
    domain: reading.DomainFile = None,
    format: reading.Format = None,
    shape: reading.Shape = None,
    person: reading.Person = None,
    item: reading.Item = None,
    count: reading.Count = None,
    labels: reading.Labels = None,
    threshold: reading.Threshold = None,
    separator: reading.Separator = None,
    header: reading.Header = None,
    member: reading.Member = None,
    missing: reading.Missing = None,
    comment: reading.Comment = None,
    strip_suffix: reading.StripSuffix = "",
    force: Annotated[bool, typer.Option("--force", help="Replace existing outputs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Compare real and synthetic records; the report is for the curator only.

    Example: dpgm evaluate visits.parquet synthetic.parquet --release release --out report.html
    """
    from dpgm.data.atomic import atomic_file, check_output
    from dpgm.data.readers import read_source
    from dpgm.errors import UsageError
    from dpgm.evaluation.baselines import IndependentMarginals, Mwem
    from dpgm.evaluation.evaluate import INDEPENDENT, evaluate, summary_table
    from dpgm.evaluation.reading import read_alike
    from dpgm.evaluation.workload_file import read_workload
    from dpgm.privacy.certificate import read_certificate
    from dpgm.report.html import write_report

    if out is None and json_file is None:
        raise UsageError("`--out` is missing; name the HTML report to write (or --json FILE).")
    for path in (out, json_file):
        if path is not None:
            check_output(path, force=force, inputs=(real, synthetic, test, workload, domain, labels, test_labels))
    if out is not None and out == json_file:
        raise UsageError("--out and --json name the same file; give two names.")
    certificate = None if release is None else read_certificate(release)
    chosen = domain if domain is not None or release is None else release / "domain.json"
    # Nothing is released here, so the items may be taken from the file.
    as_real: dict[str, Any] = {
        "format": format,
        "shape": shape,
        "person": person,
        "item": item,
        "count": count,
        "threshold": threshold,
        "member": member,
        "separator": reading.separator_character(separator),
        "header": header,
        "missing": missing or (),
        "comment": comment,
        "strip_suffix": strip_suffix,
    }
    first, _ = read_source(real, domain=chosen, assume_public_items=chosen is None, labels=labels, **as_real)
    second = read_alike(first.domain, synthetic, {}, as_real)
    held_out = None if test is None else read_alike(first.domain, test, as_real | {"labels": test_labels})
    queries = None if workload is None else read_workload(workload, first.domain)
    budget = epsilon if epsilon is not None else 1.0 if certificate is None else certificate.epsilon
    delta = None if certificate is None else certificate.delta
    others = None
    if mwem:
        others = {
            INDEPENDENT: IndependentMarginals(budget, delta).fit(first).sample(len(first), seed=seed),
            "MWEM": Mwem(budget, delta).fit(first).sample(len(first), seed=seed),
        }
    made = evaluate(
        first, second, test=held_out, queries=queries, baselines=others, epsilon=budget, delta=delta, seed=seed
    )
    if json_file is not None:
        with atomic_file(json_file) as temporary:
            temporary.write_text(made.to_json(), encoding="utf-8")
    if out is not None:
        write_report(made, out, certificate=certificate)
    if not quiet:
        print_summary(*summary_table(made))
        written = [str(path) for path in (out, json_file) if path is not None]
        announce(f"curator only, computed on the real data: {', '.join(written)}")


def print_summary(columns: tuple[str, ...], rows: list[tuple[str | float | None, ...]]) -> None:
    """Errors by method as a small table on the terminal."""
    from rich.console import Console
    from rich.table import Table

    title = "mean relative error of popular queries by number of items (popN); distance of record lengths"
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in rows:
        table.add_row(*("–" if cell is None else cell if isinstance(cell, str) else f"{cell:.3f}" for cell in row))
    Console().print(table)
