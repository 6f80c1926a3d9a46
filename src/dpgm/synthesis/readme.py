"""The release's README: the certificate in words, for whoever opens the folder."""

from dpgm.data.domain import Domain
from dpgm.privacy.certificate import Certificate


def release_readme(certificate: Certificate, domain: Domain) -> str:
    """What this is, what is guaranteed, how to sample. Depends on the certificate and the domain alone."""
    private, unit = certificate.private, certificate.unit
    lines = ["# A differentially private release", ""]
    if not private:
        lines += [
            "> **NOT PRIVATE.** This release was made with a seeded generator, for tests or figures. Anyone who",
            "> knows the seed can remove the noise. Do not publish it.",
            "",
        ]
    lines += [
        f"This folder was made by {certificate.software} from {certificate.records:,} records. It holds a"
        " generative model from which anyone may draw as many synthetic records as they like. It holds no record"
        " of the original data.",
        "",
        "## What is guaranteed",
        "",
        f"The model is differentially private with **epsilon = {certificate.epsilon:.4g}** and"
        f" **delta = {certificate.delta:.3g}**, per {unit}.",
        "",
        f"Whatever anyone infers from this folder about one {unit}, they could have inferred almost as well had that"
        f" {unit} been left out: no probability grows by more than a factor exp(epsilon) ="
        f" {_factor(certificate.epsilon)}, apart from an event of probability delta. This holds whatever else they"
        " know, and however many synthetic records are drawn.",
        "",
        f"Neighbouring data sets: {certificate.adjacency} (one {unit} more or less; the number of records"
        " is treated as public).",
    ]
    if certificate.statements or certificate.warnings:
        lines += ["", "## What to know", ""]
        lines += [f"- {text}" for text in (*certificate.statements, *certificate.warnings)]
    lines += [
        "",
        "## What was measured",
        "",
        "| mechanism | noise multiplier | runs | sampling rate |",
        "|---|---|---|---|",
    ]
    lines += [f"| {m.name} | {m.noise:.5g} | {m.count:,} | {m.sampling_rate:.4g} |" for m in certificate.mechanisms]
    lines += [
        "",
        "Nothing else left the data. `dpgm verify .` recomputes epsilon from this list and checks every file; with"
        " `--signed-by KEY.pub` also who vouches for it.",
        "",
        "## How to use it",
        "",
        "    dpgm verify .",
        "    dpgm sample . --records 100000 --out synthetic.parquet",
        "",
        "or, in Python, `dpgm.load('.').sample(100_000).to_pandas()`.",
        "",
        "Fields: "
        + ", ".join(f"{_plain(field.name)} ({field.kind}, {field.width} positions)" for field in domain.fields)
        + ".",
        "",
    ]
    return "\n".join(lines)


def _plain(name: str) -> str:
    """A name as text on one line, without what Markdown or HTML would take for more."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|&!" else character for character in shown)


def _factor(epsilon: float) -> str:
    return f"{2.718281828459045**epsilon:.3g}" if epsilon < 20 else "more than a hundred million"
