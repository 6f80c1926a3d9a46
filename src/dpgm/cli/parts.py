"""Commands about rows in several places: `measure`, and the half of `fit` that adds up what places measured."""

from pathlib import Path
from typing import TYPE_CHECKING

import dpgm
from dpgm.cli.app import FORCE, OUTPUT, QUIET, app, option
from dpgm.cli.options import DATA, PRIVACY, takes_read_options
from dpgm.cli.terminal import announce, bars, read_stdin
from dpgm.data.atomic import check_output
from dpgm.errors import UsageError

if TYPE_CHECKING:
    from dpgm.synthesis.parts import PartRequest
    from dpgm.synthesis.release import Release


@app.command("measure")
@takes_read_options
def measure_rows(
    data: str = DATA,
    *,
    options: "dpgm.ReadOptions",
    part: str = option("--part", "Which part this is, such as 2/3.", ..., metavar="K/N"),
    key: Path = option(
        "--key", "The curator's public key (.pub of `dpgm keys create --seal`).", ..., panel=PRIVACY
    ),
    out: Path = option("--out -o", "File to write; it ends in .sums.", ..., panel=OUTPUT),
    plan_file: Path | None = option("--plan", "The plan, in the first round.", panel=PRIVACY),
    request_file: Path | None = option("--request", "What the curator asks for, in later rounds.", panel=PRIVACY),
    force: bool = FORCE,
    quiet: bool = QUIET,
) -> None:
    """Compute the exact sums of one part of the rows where they lie, sealed to the curator; see `fit --sums`.

    Example: dpgm measure north.csv --domain d.yaml --plan plan.json --part 1/3 --key curator.pub --out north.sums
    """
    from dpgm.privacy.keys import read_sealing_key
    from dpgm.synthesis.part_files import PART_ENDING, write_part
    from dpgm.synthesis.parts import measure_part

    if out.suffix != PART_ENDING:
        raise UsageError(f"`out` must end in {PART_ENDING}; got {out.name}.")
    check_output(out, force=force, inputs=(data, plan_file, request_file))
    recipient = read_sealing_key(key)
    number, of = _part(part)
    request = _request(plan_file, request_file, options)
    (path,) = read_stdin(data, detect_format=False, format=options.format, folder=options.cache)
    records, source = dpgm.read_source(path, options, domain=request.domain)
    measured = measure_part(records, source, request, number, of)
    write_part(measured, out, recipient)
    if not quiet:
        announce(f"round {request.round}, {measured.heading['mechanism']}: part {part} written to {out}")
        announce(
            f"{out} is exact, not private: only the holder of {key.name}'s private half can read it; send it to nobody"
            " else, and remove it when the release is made"
        )


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    try:
        return int(number), int(of)
    except ValueError:
        raise UsageError(f"`part` must be K/N, such as 2/3; got {text!r}.") from None


def _request(plan_file: Path | None, request_file: Path | None, options: "dpgm.ReadOptions") -> "PartRequest":
    from dpgm.synthesis.part_files import read_request
    from dpgm.synthesis.parts import PartRequest

    if (plan_file is None) == (request_file is None):
        raise UsageError("give `--plan` in the first round, and `--request` in later ones.")
    if request_file is not None:
        return read_request(request_file)
    if options.public_domain is None:
        raise UsageError("`--domain` is missing: all places must read their rows by the same domain.")
    assert plan_file is not None
    return PartRequest.first(dpgm.read_plan(plan_file), options.public_domain)


def fit_of_sums(
    sums: Path,
    planned: "dpgm.Plan",
    options: "dpgm.ReadOptions",
    key: Path | None,
    *,
    checkpoint: Path,
    ledger: Path | None,
    quiet: bool,
) -> "Release | None":
    """The release of a fit whose parts are all there; None, with word of what is missing, if they are not."""
    from dpgm.privacy.keys import read_unsealing_key
    from dpgm.synthesis.checkpoint import HEADER_FILE
    from dpgm.synthesis.part_files import PartFolder, write_request
    from dpgm.synthesis.parts import Waiting, fit_parts

    if key is None:
        raise UsageError("`--key` is missing: the .key file of `dpgm keys create --seal`, which opens the parts.")
    if options.public_domain is None:
        raise UsageError("`--domain` is missing: name the domain file that the places measured by.")
    try:
        with bars(quiet) as progress:
            return fit_parts(
                planned,
                options.public_domain,
                PartFolder(sums, read_unsealing_key(key)),
                ledger=None if ledger is None else dpgm.Ledger.open(ledger),
                checkpoint=checkpoint,
                resume=(checkpoint / HEADER_FILE).exists(),
                progress=progress,
            )
    except Waiting as waiting:
        request = write_request(waiting.request, sums)
        announce(str(waiting).rstrip("."))
        announce(f"each place needs {request} for `dpgm measure --request`; then run this command again")
        return None
