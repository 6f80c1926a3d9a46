"""Read a second file so that it can be compared with records read before."""

from collections.abc import Mapping
from typing import Any

from dpgm.data.domain import Domain
from dpgm.data.formats import format_of
from dpgm.data.readers import read_records
from dpgm.data.records import Records
from dpgm.errors import DpgmError
from dpgm.evaluation.comparable import with_domain


def read_alike(domain: Domain, path: str, *attempts: Mapping[str, Any]) -> tuple[Records, Mapping[str, Any]]:
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


def _read(domain: Domain, path: str, options: Mapping[str, Any]) -> Records:
    sets = len(domain.fields) == 1 and domain.fields[0].kind == "items"
    shaped = format_of(path.split("::")[0], options.get("format")).name in ("npz", "npy", "idx")
    if not sets or shaped:
        return read_records(path, domain=domain, **options)
    return with_domain(read_records(path, assume_public_items=True, **options), domain)
