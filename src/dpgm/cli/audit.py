"""The command that attacks the pipeline."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpgm.cli.app import AS_JSON, app, option
from dpgm.cli.terminal import bars, figure
from dpgm.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from dpgm.audit import Finding, OneRunFinding


@app.command()
def audit(
    only: list[str] | None = option("--only", "A, B, C or VAE; may be given several times. All by default."),
    quick: bool = option("--quick", "Fewer fits: finds gross faults, shows less.", False),
    fits: int | None = option(
        "--fits", "Fits with the canary, and as many without; three times as many for A, about half for the others."
    ),
    data: Path | None = option(
        "--data", "PUBLIC item sets: one full-size fit with many canaries, instead of tiny fits."
    ),
    domain: Path | None = option("--domain", "The domain of --data (YAML or JSON)."),
    epsilon: float = option("--epsilon", "With --data: the claim to audit.", 8.0),
    model: str = option("--model", "With --data: auto, products, vae or rbm.", "auto"),
    canaries: int = option("--canaries", "With --data: how many.", 300),
    as_json: bool = AS_JSON,
    out: Path | None = option("--out", "Write the same JSON to a file."),
    quiet: bool = option("--quiet", "Print nothing but the result.", False),
) -> None:
    """Try to tell from releases whether one record was in the data; exit 1 if that works better than is claimed.

    Example: dpgm audit --quick
    """
    from dpgm.audit.audit import FITS, QUICK_FITS
    from dpgm.audit.audit import audit as audit_tiny
    from dpgm.data.atomic import atomic_file

    if data is not None and (only or quick or fits is not None):
        raise UsageError("--only, --quick and --fits are about tiny fits; leave them out with --data.")
    findings: list[Finding | OneRunFinding] = []
    with bars(quiet or as_json) as progress:
        if data is not None:
            findings.append(_one_run(data, domain, epsilon, model, canaries, progress))
        else:
            chosen = fits if fits is not None else QUICK_FITS if quick else FITS
            findings += audit_tiny(only, fits=chosen, progress=progress)
    kind = "tiny fits" if data is None else "one run"
    result = {"audit": kind, "passed": all(each.passed for each in findings)} | {
        "findings": [each.to_json() for each in findings]
    }
    if out is not None:
        with atomic_file(out) as temporary:
            temporary.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    if as_json:
        typer.echo(json.dumps(result))
    else:
        for each in findings:
            _show(each)
    for each in findings:
        if not each.passed:
            raise CheckFailed(f"the audit contradicts the claim of epsilon {figure(each.epsilon)}: {each.verdict}.")


def _one_run(
    data: Path, domain: Path | None, epsilon: float, model: str, canaries: int, progress: Any
) -> "OneRunFinding":
    from dpgm.audit import audit_one_run
    from dpgm.data.read.readers import read_records

    records = read_records(data, domain=domain, assume_public_items=domain is None)
    return audit_one_run(records, epsilon=epsilon, model=model, canaries=canaries, progress=progress)


def _show(found: "Finding | OneRunFinding") -> None:
    from dpgm.audit import Finding

    if isinstance(found, Finding):
        typer.echo(
            f"{found.configuration}: {found.sentence}; {found.fits} fits with the canary, {found.fits} without,"
            f" {found.seconds:.0f} s"
        )
    else:
        typer.echo(
            f"one fit ({found.model}) of {found.records} records with {found.canaries} canaries,"
            f" {found.right} of {found.guesses} guesses right, {found.seconds:.0f} s"
        )
    typer.echo(
        f"  claimed epsilon {found.epsilon:.2f}, shown at least {found.epsilon_lower:.2f} ({found.share:.0%}): "
        f"{found.verdict}"
    )
    if isinstance(found, Finding):
        for gate in found.gates:
            typer.echo(f"  {'ok  ' if gate.passed else 'FAIL'}  {gate.name}: {gate.detail}, p = {gate.p:.2g}")
