"""Where k-means starts: never at a private row.

Either at public records, or at records drawn from the independent model of a noisy profile, spread out as in
k-means++ on those draws. Both are post-processing of public or released values.
"""

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.statistics.fourier_features import FeatureMap
from dpgm.validation import whole

_POOL = 2000  # records drawn to choose k from


def draw_initial_centers(
    profile: Tensor, clusters: int, feature_map: FeatureMap, *, domain: Domain, generator: torch.Generator
) -> Tensor:
    """Centres from records drawn by the independent model of the item frequencies `profile`.

    Args:
        profile: (m,) frequencies, noisy or public; values outside [0, 1] are clamped.
        clusters: k.
        feature_map: maps the draws to features.
        domain: tells which positions exclude each other.
        generator: source of the draws.

    Returns:
        (k, d) float64.
    """
    pool = _independent_records(profile, max(_POOL, 10 * clusters), domain, generator)
    return centers_from_records(pool, clusters, feature_map, generator=generator)


def centers_from_records(
    public: Records, clusters: int, feature_map: FeatureMap, *, generator: torch.Generator
) -> Tensor:
    """Some of the given public records, far from one another as in k-means++, as (k, d) float64 features.

    With fewer distinct records than clusters the remaining centres repeat some of them; the first iteration leaves
    those empty and they are re-seeded.
    """
    whole(at_least=1, clusters=clusters)
    if len(public) == 0:
        raise UsageError("no public records were given to start from; give at least one.")
    features = feature_map.quantised(public).double() * feature_map.grid
    chosen = [int(torch.randint(len(public), (1,), generator=generator))]
    distances = ((features - features[chosen[0]]) ** 2).sum(dim=1)
    for _ in range(clusters - 1):
        weights = distances if float(distances.sum()) > 0 else torch.ones_like(distances)
        chosen.append(int(torch.multinomial(weights, 1, generator=generator)))
        distances = torch.minimum(distances, ((features - features[chosen[-1]]) ** 2).sum(dim=1))
    return features[torch.tensor(chosen)]


def _independent_records(profile: Tensor, count: int, domain: Domain, generator: torch.Generator) -> Records:
    """Records whose positions are drawn independently, one per field where a field takes exactly one value."""
    if profile.shape != (domain.width,):
        raise UsageError(
            f"`profile` must hold one frequency per position, ({domain.width},); got {tuple(profile.shape)}."
        )
    frequencies = profile.double().nan_to_num().clamp(0, 1)
    drawn = np.zeros((count, domain.width), dtype=bool)
    for block in domain.blocks:
        here = frequencies[block.start : block.stop]
        if block.softmax:
            weights = here if float(here.sum()) > 0 else torch.ones_like(here)
            values = torch.multinomial(weights, count, replacement=True, generator=generator).numpy()
            drawn[np.arange(count), block.start + values] = True
        else:
            coins = torch.rand(count, block.width, generator=generator, dtype=torch.float64)
            drawn[:, block.start : block.stop] = (coins < here).numpy()
    return Records.from_dense(drawn, domain)
