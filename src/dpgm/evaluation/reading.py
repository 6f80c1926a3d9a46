"""Read a second file so that it can be compared with records read before."""

from dataclasses import replace

from dpgm.data.domain import Domain
from dpgm.data.guessing import guess_options
from dpgm.data.opening import locate
from dpgm.data.options import Paths, ReadOptions
from dpgm.data.readers import format_name, read_with
from dpgm.data.records import Records
from dpgm.errors import DpgmError
from dpgm.evaluation.comparable import with_domain


def read_alike(domain: Domain, path: Paths, *attempts: ReadOptions) -> tuple[Records, ReadOptions]:
    """Records of a file over `domain`, trying one set of reading options after the other; and those that worked.

    Readers drop items that a domain does not have, which is right for private data but would hide that a synthetic
    file belongs to another domain. So a file of item sets is read with its own items first, and these must all be
    known.

    Raises:
        DpgmError: what the last attempt said.
        UsageError: the file holds items that the domain does not have.
    """
    *early, last = attempts
    for options in early:
        try:
            return _read(domain, path, options), options
        except DpgmError:
            continue
    return _read(domain, path, last), last


def _read(domain: Domain, path: Paths, options: ReadOptions) -> Records:
    source = locate(path, options.member)
    sets = len(domain.fields) == 1 and domain.fields[0].kind == "items"
    shaped = format_name(source, options) in ("npz", "npy", "idx")
    chosen = replace(options, domain=domain)
    if not sets or shaped:
        return read_with(source, guess_options(source, chosen).options)[0]
    # What a synthetic file holds is public, so its first rows may tell its shape, and a cell is an item as it stands.
    guessed = guess_options(source, chosen).options
    cells = guessed.item_separator
    if cells is None and not (guessed.shape == "basket" and guessed.header):  # those are cells of JSON lists
        cells = ""
    own = replace(guessed, domain=None, assume_public_items=True, item_separator=cells)
    return with_domain(read_with(source, own)[0], domain)
