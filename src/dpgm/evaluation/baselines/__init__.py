"""What must always stand beside a synthesizer: answering 0, independent noisy marginals, MWEM.

Each is fitted and sampled like a `Synthesizer`, draws its noise through the gateway, and keeps a certificate of the
mechanisms that ran.
"""

from dpgm.evaluation.baselines.answer_zero import AnswerZero
from dpgm.evaluation.baselines.independent import IndependentMarginals
from dpgm.evaluation.baselines.mwem import Mwem

__all__ = ["AnswerZero", "IndependentMarginals", "Mwem"]
