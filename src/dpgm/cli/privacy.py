"""Commands about privacy: `cost`, `verify`, `explain`, `recipient-page`, `sign`, `keys`, `ledger` and `audit`."""

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import dpgm
from dpgm.cli.app import AS_JSON, FORCE, OUTPUT, app, argument, option, printable
from dpgm.cli.parsing import App
from dpgm.cli.terminal import bars, figure
from dpgm.data.atomic import atomic_file, check_output
from dpgm.errors import ArtefactError, CheckFailed, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.audit import AuditFinding, OneRunFinding

ledger_app = App(help="The budget spent on one population of people, over all releases.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
keys_app = App(help="Keys to sign releases with.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")


@app.command()
def cost(
    sampling_rate: float = option(
        "--sampling-rate", "Probability that a record is sampled in a step; 1 for all records.", 1.0
    ),
    noise: float | None = option("--noise", "Noise multiplier of the steps: standard deviation / sensitivity."),
    steps: int = option("--steps", "Number of steps.", 0),
    delta: float | None = option("--delta", "Delta of the guarantee."),
    epsilon: float | None = option(
        "--epsilon", "Target epsilon, in place of --noise or --delta, which is then computed."
    ),
    release: list[str] | None = option(
        "--release", "Gaussian releases on all records, as z:n: noise multiplier z, n times (repeatable)."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Compute the epsilon of sampled steps and releases on all records; or the noise or delta for an epsilon."""
    from dpgm.privacy.accountant import delta_at, replace_one_epsilon
    from dpgm.privacy.events import Event, GaussianRelease, SampledSteps

    releases = [_parse_release(text) for text in release or ()]
    if steps == 0 and noise is not None:
        raise UsageError("`--noise` is the noise of the steps; say how many with --steps.")
    if steps < 0:
        raise UsageError(f"`--steps` must be a whole number of at least 0; got {steps}.")
    if delta is None and epsilon is None:
        raise UsageError("give --delta to learn epsilon, or --epsilon to learn delta or the noise.")
    if steps > 0 and noise is None:
        if epsilon is None or delta is None:
            raise UsageError("without --noise, give both --epsilon and --delta: the noise is then computed.")
        noise = _solve_noise(epsilon, delta, releases, sampling_rate, steps)
    elif delta is not None and epsilon is not None:
        raise UsageError("--epsilon replaces --noise or --delta; leave one of the three out.")
    events: list[Event] = [GaussianRelease(multiplier, count) for multiplier, count in releases]
    if noise is not None:
        events.append(SampledSteps(noise, sampling_rate, steps))
    if delta is None:
        assert epsilon is not None  # narrowed above
        delta = delta_at(events, epsilon)
        if not 0 < delta < 1:
            raise UsageError(f"no delta below 1 gives this schedule an epsilon of {epsilon}.")
    result = dpgm.cost(events, delta)
    figures: dict[str, Any] = {
        "epsilon": result.epsilon,
        "epsilon_rdp": result.epsilon_rdp,
        "epsilon_pld": result.epsilon_pld if math.isfinite(result.epsilon_pld) else None,
        "epsilon_replace_one": replace_one_epsilon(events, delta),
        "delta": delta,
        "adjacency": result.adjacency.value,
        "sampling_rate": sampling_rate,
        "noise": noise,
        "steps": steps,
        "releases": [{"noise": multiplier, "count": count} for multiplier, count in releases],
    }
    if as_json:
        typer.echo(json.dumps(figures))
        return
    typer.echo(f"epsilon {figure(result.epsilon)} at delta {delta:.3g} ({result.adjacency.value} adjacency)")
    if noise is not None:
        typer.echo(f"  {counted(steps, 'step')} at sampling rate {sampling_rate:g}, noise multiplier {noise:g}")
    for multiplier, count in releases:
        typer.echo(f"  {counted(count, 'release')} on all records, noise multiplier {multiplier:g}")
    typer.echo(f"  upper bound by Renyi divergences {figure(result.epsilon_rdp)}")
    typer.echo(f"  if a neighbour replaces a record: {figure(figures['epsilon_replace_one'])} (proved bound)")


@app.command()
def verify(
    release: Path = argument("The release folder."),
    signed_by: list[Path] | None = option(
        "--signed-by", "Public key (.pub) whose holder must have signed (repeatable: all of them)."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Check a release from its folder alone; prints "certified" if all checks pass, else exits with 1 and says why.

    Example: dpgm verify release --signed-by office.pub
    """
    from dpgm.synthesis.verification import Check

    if not os.path.isdir(release):
        raise UsageError(f"{release} is not a folder; name the folder of a release.")
    try:
        verification = dpgm.verify(release, signed_by=signed_by or ())
    except ArtefactError as error:
        if as_json:
            typer.echo(json.dumps({"ok": False, "checks": [asdict(Check("certificate", False, str(error)))]}))
        raise CheckFailed(f"certificate: {error}") from None
    certificate = verification.certificate
    if as_json:
        figures = {
            "ok": verification.ok,
            "epsilon": certificate.epsilon,
            "epsilon_recomputed": verification.epsilon if math.isfinite(verification.epsilon) else None,
            "epsilon_replace_one": certificate.epsilon_replace_one,
            "delta": certificate.delta,
            "adjacency": certificate.adjacency.value,
            "unit": certificate.unit,
            "records": certificate.records,
            "signature": verification.signature,
            "warnings": [*certificate.warnings, *verification.warnings],
            "checks": [asdict(check) for check in verification.checks],
        }
        typer.echo(json.dumps(figures))
    else:
        for check in verification.checks:
            tail = f": {printable(check.why)}" if check.why else ""
            typer.echo(f"{'ok  ' if check.ok else 'FAIL'}  {printable(check.name)}{tail}")
        for warning in (*certificate.warnings, *verification.warnings):
            typer.echo(f"warning: {printable(warning)}")
    if not verification.ok:
        first = verification.failed[0]
        raise CheckFailed(f"{printable(first.name)}: {printable(first.why.rstrip('.'))}.")
    if not as_json:
        typer.echo(
            f"certified: epsilon {figure(certificate.epsilon)}, delta {certificate.delta:.3g}, per {certificate.unit}, "
            f"{certificate.adjacency.value} adjacency, {counted(certificate.records, 'record')} (public)"
        )
        if not signed_by:
            typer.echo(_NOTES[verification.signature])


_NOTES = {
    "none": "note: not signed: the folder is consistent, but anyone could have written it (docs/guarantee.md)",
    "not checked": (
        "note: signature not checked: the folder is consistent, but anyone could have written it; check it with"
        " --signed-by KEY.pub"
    ),
}


@app.command()
def explain(
    what: Path = argument("A plan (JSON, from `dpgm plan --out`) or a release folder.", metavar="PLAN|RELEASE"),
    as_json: bool = AS_JSON,
) -> None:
    """Say what epsilon and delta mean for one person: the odds of being found out, promised and by the plan.

    Example: dpgm explain release
    """
    from dpgm.synthesis.explanation import explain_certificate, explain_plan

    if os.path.isdir(what):
        verification = dpgm.verify(what)
        if not verification.ok:
            first = verification.failed[0]
            raise CheckFailed(f"{what} does not verify ({printable(first.name)}: {printable(first.why)}).")
        explained = explain_certificate(verification.certificate)
    else:
        explained = explain_plan(dpgm.read_plan(what))
    if as_json:
        typer.echo(json.dumps(explained.to_json()))
        return
    typer.echo(f"protects {explained.protects}: epsilon {figure(explained.epsilon)}, delta {explained.delta:.3g}")
    for sentence in explained.sentences:
        typer.echo(f"- {sentence}")


@app.command("describe")
def describe_for_others(
    release: Path = argument("The release folder."),
    form: str = option(
        "--form", "registry (of DP deployments), nist (SP 800-226) or croissant.", ..., metavar="FORM"
    ),
    out: Path = option("--out -o", "File to write.", ..., panel=OUTPUT),
    data: list[Path] | None = option("--data", "File of synthetic records, for croissant (repeatable)."),
    use: str | None = option("--use", "What the synthetic records are for."),
    region: str | None = option("--region", "What region they are about."),
    author: str | None = option("--author", "Who writes the entry of the registry; by default the owner."),
    licence: str | None = option("--licence", "Licence of the synthetic records, as a link."),
    force: bool = FORCE,
) -> None:
    """Describe a release in a form that others read: an entry of the registry, answers to NIST, or Croissant metadata.

    Example: dpgm describe release --form croissant --data synthetic.csv --out synthetic.croissant.json
    """
    from dpgm.report.descriptions import TO_COMPLETE, Words, describe_release

    check_output(out, force=force, inputs=(release, *(data or ())))
    words = Words(*(text or TO_COMPLETE for text in (use, region, author, licence)))
    text = describe_release(dpgm.load(release), form, words, data or ())
    with atomic_file(out) as temporary:
        temporary.write_text(text, "utf-8")
    left = text.count(TO_COMPLETE)
    note = f", {counted(left, 'place')} to be completed by hand (search for {TO_COMPLETE})" if left else ""
    typer.echo(f"{out}: {form}{note}")


@app.command("recipient-page")
def recipient_page(
    out: Path = option("--out -o", "HTML file to write.", Path("check-release.html"), panel=OUTPUT),
    force: bool = FORCE,
) -> None:
    """Write a page for recipients: it checks the hashes and the signature of a release in any browser, offline.

    Example: dpgm recipient-page --out check-release.html
    """
    from importlib import resources

    check_output(out, force=force, inputs=())
    page = resources.files("dpgm.report").joinpath("recipient.html").read_text("utf-8")
    with atomic_file(out) as temporary:
        temporary.write_text(page, "utf-8")
    typer.echo(f"{out}: hand it out with your public key; a release folder is dropped into it")


@app.command()
def sign(
    release: Path = argument("The release folder."),
    key: Path = option("--key", "Private key (.key) made by `dpgm keys create`.", ...),
) -> None:
    """Sign a release that verifies, so that others can tell who vouches for it; several keys may sign.

    Example: dpgm sign release --key office.key
    """
    from dpgm.privacy.keys import key_fingerprint, read_private_key
    from dpgm.synthesis.release import sign as sign_release

    opened = read_private_key(key)
    sign_release(release, opened)
    typer.echo(f"{release}: signed by {key_fingerprint(opened.public_key())}")


@keys_app.command("create")
def keys_create(
    name: Path = argument("Name of the pair: keep NAME.key private, give NAME.pub to others."),
    seal: bool = option("--seal", "Keys for the sums of parts (`dpgm measure`), not for signing.", False),
) -> None:
    """Create a pair of Ed25519 keys to sign releases with, or of X25519 keys to which sums of parts are sealed."""
    from dpgm.privacy.keys import create_keys, key_fingerprint, read_public_key

    private, public = create_keys(name, "seal" if seal else "sign")
    if seal:
        typer.echo(f"{private}: keep this one to yourself; it opens what is sealed to the other")
        typer.echo(f"{public}: hand this one to every place that measures a part")
        return
    typer.echo(f"{private}: keep this one to yourself; whoever has it can sign in your name")
    typer.echo(f"{public}: hand this one out; its fingerprint is {key_fingerprint(read_public_key(public))}")


@ledger_app.command("create")
def ledger_create(
    file: Path = argument("The ledger file to create."),
    epsilon: float = option("--epsilon", "The largest epsilon of all releases together.", ...),
    delta: float = option("--delta", "The delta of that epsilon.", ...),
) -> None:
    """Create a ledger for one population of people."""
    ledger = dpgm.Ledger.create(file, epsilon, delta)
    typer.echo(f"{file}: population {ledger.population}, at most epsilon {epsilon:g} at delta {delta:g}")


@ledger_app.command("show")
def ledger_show(
    file: Path = argument("The ledger."),
    as_json: bool = AS_JSON,
) -> None:
    """Show what has been spent, entry by entry."""
    ledger = dpgm.Ledger.open(file)
    totals = ledger.totals()
    rows: list[dict[str, Any]] = [
        {
            "entry": entry.name,
            "state": entry.state,
            "time": entry.time,
            "epsilon_alone": dpgm.cost(entry.charged, ledger.delta, check=False).epsilon if entry.charged else 0.0,
            "release": entry.release,
        }
        for entry in ledger.entries()
    ]
    if as_json:
        figures = {
            "population": ledger.population,
            "epsilon_cap": totals.epsilon_cap,
            "delta": totals.delta,
            "spent": totals.spent,
            "epsilon_if_fixed": totals.epsilon_if_fixed,
            "entries": rows,
        }
        typer.echo(json.dumps(figures))
        return
    typer.echo(f"population {ledger.population}: cap epsilon {totals.epsilon_cap:g} at delta {totals.delta:g}")
    for row in rows:
        typer.echo(
            f"  {row['entry']}  {row['state']:<10}  {row['time']}  alone epsilon {figure(row['epsilon_alone'])}"
            f"  {printable(str(row['release']))}".rstrip()
        )
    typer.echo(f"spent or reserved: {totals.spent:.1%} of the cap (Renyi filter)")
    typer.echo(f"if all plans were fixed in advance: epsilon {figure(totals.epsilon_if_fixed)}")


@ledger_app.command("check")
def ledger_check(
    file: Path = argument("The ledger."),
    releases: list[Path] | None = argument("Release folders that must be in it.", None),
) -> None:
    """Check the ledger's chain of hashes, and that releases are in it; exits with 1 if not."""
    from dpgm.privacy.certificate import read_certificate

    if not file.is_file():
        raise UsageError(f"{file} does not exist.")
    ledger = dpgm.Ledger(file)
    marks = []
    for folder in releases or ():
        mark = read_certificate(folder).ledger
        if mark is None:
            raise CheckFailed(f"{folder} was made without a ledger.")
        marks.append(mark)
    problems = ledger.check(marks)
    if problems:
        raise CheckFailed(f"{file}: {printable('; '.join(problems))}.")
    entries = counted(len(ledger.entries()), "entry", "entries")
    typer.echo(f"{file}: {entries}, and the chain of {counted(ledger.mark.sequence, 'line')} about them holds")


@ledger_app.command("void")
def ledger_void(
    file: Path = argument("The ledger."),
    entry: str = argument("Name of the entry, as `ledger show` prints it."),
) -> None:
    """Cancel a reservation whose fit never started."""
    dpgm.Ledger.open(file).void(entry)
    typer.echo(f"{file}: entry {entry} is void")


def _parse_release(text: str) -> tuple[float, int]:
    noise, colon, count = text.partition(":")
    try:
        return float(noise), int(count) if colon else 1
    except ValueError:
        raise UsageError(
            f"`--release` must be z:n, a noise multiplier and a number of releases; got {text!r}."
        ) from None


def _solve_noise(
    epsilon: float, delta: float, releases: list[tuple[float, int]], sampling_rate: float, steps: int
) -> float:
    """The smallest noise multiplier of the steps with which they and the releases meet (epsilon, delta)."""
    from dpgm import validation
    from dpgm.privacy.accountant import check_rate
    from dpgm.privacy.calibration import Training, gaussian_mu, solve_training

    validation.positive(epsilon=epsilon)
    validation.probability(delta=delta)
    check_rate(sampling_rate)
    mechanisms = [dpgm.Mechanism(f"release {place}", *entry) for place, entry in enumerate(releases)]
    if mechanisms:
        spent = dpgm.cost(mechanisms, delta, check=False).epsilon
        if spent >= epsilon:
            raise UsageError(f"the releases alone cost epsilon {spent:.4g}; there is nothing left for the steps.")
    left = gaussian_mu(epsilon, delta) ** 2 - sum(count / multiplier**2 for multiplier, count in releases)
    return solve_training(epsilon, delta, mechanisms, Training(sampling_rate, steps, 0.0), left)[-1].noise


@app.command()
def audit(
    only: list[str] | None = option(
        "--only", "Configuration to audit, such as items, table or A (repeatable); by default all."
    ),
    quick: bool = option("--quick", "Fewer fits: finds large faults only.", False),
    fits: int | None = option(
        "--fits", "Fits with the canary, and as many without; more for A and table, four fifths for the others."
    ),
    data: Path | None = option(
        "--data", "PUBLIC item sets: one full-size fit with many canaries, instead of tiny fits."
    ),
    domain: Path | None = option("--domain", "The domain of --data (YAML or JSON)."),
    epsilon: float = option("--epsilon", "With --data: the claimed epsilon to audit.", 8.0),
    model: str = option("--model", "With --data: auto, products, vae or rbm.", "auto"),
    canaries: int = option("--canaries", "With --data: number of canaries.", 300),
    as_json: bool = AS_JSON,
    out: Path | None = option("--out", "Write the same JSON to a file."),
    quiet: bool = option("--quiet", "Print nothing but the result.", False),
) -> None:
    """Try to tell from releases whether one record was in the data; exits with 1 if that works better than claimed.

    Example: dpgm audit --quick
    """
    from dpgm.audit.findings import FITS, QUICK_FITS
    from dpgm.audit.findings import audit as audit_tiny

    if data is not None and (only or quick or fits is not None):
        raise UsageError("--only, --quick and --fits are about tiny fits; leave them out with --data.")
    findings: list[AuditFinding | OneRunFinding] = []
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

    records = dpgm.read_records(data, domain=domain, assume_public_items=domain is None)
    return audit_one_run(records, epsilon=epsilon, model=model, canaries=canaries, progress=progress)


def _show(found: "AuditFinding | OneRunFinding") -> None:
    from dpgm.audit import AuditFinding

    if isinstance(found, AuditFinding):
        typer.echo(
            f"{found.configuration}: {found.sentence}; {counted(found.fits, 'fit')} with the canary, {found.fits}"
            f" without, {found.seconds:.0f} s"
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
    if isinstance(found, AuditFinding):
        for gate in found.gates:
            typer.echo(f"  {'ok  ' if gate.passed else 'FAIL'}  {gate.name}: {gate.detail}, p = {gate.p:.2g}")
