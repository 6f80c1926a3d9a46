"""Whatever the user has in memory, as Records."""

from typing import Any

import numpy as np

from dpgm.data import conversion
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError


def as_records(data: Any, domain: Domain | None) -> Records:
    """Records from Records, numpy, scipy, pandas, polars or pyarrow objects.

    The shape of an array is public by nature; a table needs a domain.
    """
    if isinstance(data, Records):
        if domain is not None and domain != data.domain:
            raise UsageError("the records have another domain than `domain`; leave `domain` out.")
        return data
    if isinstance(data, np.ndarray):
        return conversion.from_numpy(data, domain)
    home = type(data).__module__.partition(".")[0]
    if home == "scipy":
        return conversion.from_scipy(data, domain)
    readers = {"pandas": conversion.from_pandas, "polars": conversion.from_polars, "pyarrow": conversion.from_arrow}
    if home not in readers:
        raise UsageError(
            f"cannot fit a {type(data).__name__}; give Records, a numpy or scipy matrix, or a pandas, polars or "
            "pyarrow table."
        )
    if domain is None:
        raise UsageError(
            "a table needs a public domain; pass Synthesizer(domain=...) or read it with read_records."
        )
    return readers[home](data, domain)
