"""What epsilon means, in words; the report and a release's README speak alike."""

import math


def epsilon_in_words(epsilon: float, delta: float, unit: str) -> tuple[str, ...]:
    """The guarantee as three plain paragraphs."""
    chance = f"1 in {1 / delta:,.0f}" if delta > 0 else "0"
    return (
        f"Whatever anyone infers from the release about one {unit}, they could have inferred almost as well had that "
        f"{unit} been left out: no probability grows by more than a factor of exp(epsilon) = {factor(epsilon)}, apart "
        f"from an event of probability delta ({chance}).",
        "This holds whatever else they know, and however many synthetic records are drawn.",
        f"{strength(epsilon)} The smaller epsilon, the stronger the protection and the larger the noise.",
    )


def belief(epsilon: float) -> str:
    """How far a suspicion can grow, starting from an even chance.

    >>> belief(1.0)
    '73 %'
    """
    return f"{100 / (1 + math.exp(-epsilon)):.0f} %" if epsilon < 7 else "almost certainty"


def factor(epsilon: float) -> str:
    """exp(epsilon), readable.

    >>> factor(1.0)
    '2.72'
    """
    return f"{math.exp(epsilon):.3g}" if epsilon < 14 else "more than a million"


def strength(epsilon: float) -> str:
    """How strong a guarantee of that size is taken to be."""
    if epsilon <= 1:
        return "An epsilon of at most 1 is commonly regarded as strong protection."
    if epsilon <= 3:
        return "An epsilon between 1 and 3 is commonly regarded as solid protection."
    if epsilon <= 10:
        return "An epsilon between 3 and 10 is a moderate guarantee."
    return "An epsilon above 10 promises little in theory."
