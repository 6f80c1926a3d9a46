"""What a baseline spent, in the same words as a release's certificate."""

from dataclasses import dataclass

from dpgm.errors import NotFittedError
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.accountant import cost
from dpgm.privacy.events import Adjacency, Mechanism


@dataclass(frozen=True)
class BaselineCertificate:
    """Epsilon recomputed from the mechanisms that ran, and where the noise came from."""

    method: str
    epsilon: float
    delta: float
    records: int
    mechanisms: tuple[Mechanism, ...]
    randomness: str
    private: bool
    statements: tuple[str, ...] = ()
    unit: str = "row"
    adjacency: Adjacency = Adjacency.ADD_REMOVE


def certify(
    method: str, gateway: Gateway, delta: float, records: int, statements: tuple[str, ...] = ()
) -> BaselineCertificate:
    """The certificate of what went through a gateway."""
    spent = gateway.spent
    return BaselineCertificate(
        method,
        cost(spent, delta).epsilon,
        delta,
        records,
        spent,
        gateway.randomness.name,
        gateway.randomness.private,
        statements,
    )


def fitted(estimator: object) -> None:
    """Refuse an estimator that has not been fitted."""
    if not hasattr(estimator, "certificate_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit(records) first.")
