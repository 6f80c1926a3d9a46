"""Mechanisms -> epsilon(delta): the privacy loss distribution, cross-checked by Renyi divergences.

The privacy loss distribution (PLD) is tight, the Renyi figure (RDP) is an independent upper bound; the smaller of
the two is reported. Releases on the whole data alone are one Gaussian mechanism and are costed in closed form.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dpgm import validation
from dpgm.errors import UsageError
from dpgm.privacy.events import Adjacency, Event, GaussianRelease, Mechanism, SampledSteps, events_of


@dataclass(frozen=True)
class Cost:
    """What a list of mechanisms costs; `epsilon` is the figure to quote."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    epsilon_pld: float
    epsilon_rdp: float


def cost(
    mechanisms: Sequence[Mechanism | Event], delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Cost:
    """Epsilon of all mechanisms together at `delta`."""
    validation.probability(delta=delta)
    import dp_accounting
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    events = _events(mechanisms)
    parts = []
    small = False
    for event in events:
        if isinstance(event, GaussianRelease):
            parts.append(
                dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(float(event.noise)), event.count)
            )
        else:
            small = small or event.sampling_rate < 1e-3
            inner = dp_accounting.PoissonSampledDpEvent(
                float(event.sampling_rate), dp_accounting.GaussianDpEvent(float(event.noise))
            )
            parts.append(dp_accounting.SelfComposedDpEvent(inner, event.steps))
    whole = dp_accounting.ComposedDpEvent(parts)
    pld = PLDAccountant(value_discretization_interval=1e-5 if small else 1e-4)
    pld.compose(whole)
    rdp = RdpAccountant()
    rdp.compose(whole)
    epsilon_pld, epsilon_rdp = float(pld.get_epsilon(delta)), float(rdp.get_epsilon(delta))
    return Cost(min(epsilon_pld, epsilon_rdp), delta, adjacency, epsilon_pld, epsilon_rdp)


def _events(mechanisms: Sequence[Mechanism | Event]) -> tuple[Event, ...]:
    plain: list[Mechanism] = []
    events: list[Event] = []
    for entry in mechanisms:
        if isinstance(entry, Mechanism):
            plain.append(entry)
        elif isinstance(entry, (GaussianRelease, SampledSteps)):
            events.append(entry)
        else:
            raise UsageError(f"an event of kind {type(entry).__name__} is unknown and cannot be costed.")
    return (*events_of(plain), *events)
