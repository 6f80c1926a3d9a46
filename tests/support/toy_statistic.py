"""A minimal statistic: the number of records with an even number of items."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.statistic import Descriptions


@dataclass(frozen=True)
class EvenLengths:
    """Records with an odd and with an even number of items; one bin per record, so one record changes it by 1."""

    words: ClassVar[Descriptions] = {
        "even lengths": Measures("measure", "records with an odd and with an even number of items", "1")
    }

    name: str = "even lengths"
    sensitivity: float = 1.0

    def query(self) -> Query:
        """A bounded sum of shape (2,) over rows; `grid=1.0` makes it a sum of whole numbers, with exact integer noise."""
        return Query(self._sum, self.sensitivity, (2,), grid=1.0)

    def _sum(self, view: View) -> torch.Tensor:
        even = int((view.rows.lengths % 2 == 0).sum())
        return torch.tensor([len(view.rows) - even, even])
