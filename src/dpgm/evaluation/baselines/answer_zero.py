"""Answer 0 to every query: free of charge, and hard to beat on queries that are nearly always 0."""

import numpy as np

from dpgm import validation
from dpgm.data.records import Records, index_dtype
from dpgm.evaluation.baselines.certificate import BaselineCertificate, fitted


class AnswerZero:
    """Empty records only. Touches no data, so it costs nothing."""

    def fit(self, records: Records) -> "AnswerZero":
        """Remember the public domain and number of records."""
        self.domain_ = records.domain
        self.certificate_ = BaselineCertificate(
            "answer 0", 0.0, 0.0, len(records), (), "none", True, ("No record was read.",)
        )
        return self

    def sample(self, count: int, *, seed: int | None = None) -> Records:
        """`count` empty records."""
        fitted(self)
        validation.whole(at_least=1, count=count)
        indices = np.empty(0, dtype=index_dtype(self.domain_.width))
        return Records(self.domain_, np.zeros(count + 1, dtype=np.int64), indices)
