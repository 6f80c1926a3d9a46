"""What the user asks for, and the settings that follow from it and from public numbers alone.

`Config` holds choices; `settle` turns them, the domain, the public number of records and the budget into `Settings`.
Nothing here ever sees a record. Settings that cannot alter the guarantee (device, progress, memory) live elsewhere.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.errors import UsageError
from dpgm.synthesis.network_rules import RULES, assumed_mean_length

Model = Literal["products", "image", "vae", "rbm"]
Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Config:
    """A request for a fit; None means: let `settle` choose from public numbers."""

    epsilon: float
    delta: float | None = None
    clusters: int | None = None
    model: Model | Literal["auto"] = "auto"
    preset: Preset = "default"
    mean_length: float | None = None  # public mean number of items per record; networks start from it

    def __post_init__(self) -> None:
        validation.positive(epsilon=self.epsilon, advice="A usual choice is 1.")
        if self.delta is not None:
            validation.probability(delta=self.delta, advice="A usual choice is 1 / (10 x number of records).")
        if self.clusters is not None:
            validation.whole(clusters=self.clusters, at_least=1, at_most=10_000)
        validation.one_of(("auto", *get_args(Model)), model=self.model)
        validation.one_of(get_args(Preset), preset=self.preset)
        if self.mean_length is not None:
            validation.positive(mean_length=self.mean_length)


@dataclass(frozen=True)
class Settings:
    """Every public number that steers a fit. Part of the plan; fixed before data is opened.

    The fields after `clusters` concern mixtures of networks only (`vae`, `rbm`).
    """

    model: Model
    preset: Preset = "default"
    clusters: int = 1
    cluster_steps: int = 8
    features: int = 200
    hidden: tuple[int, ...] = (200,)
    latent: int = 8
    sampling_rate: float = 0.01
    steps: int = 2000
    learning_rate: float = 0.002
    schedule: Literal["cosine", "constant"] = "cosine"
    optimizer: Literal["adam", "sgd"] = "adam"
    averaged_tail: float = 0.5
    norm_quantile: float | None = 0.9  # None: the mode of the histogram, as in the paper
    warm_start: bool = True
    calibrate: bool = True
    mean_length: float | None = None  # stated, public; biases start from it where no profile is released

    @property
    def trains_networks(self) -> bool:
        """Whether private SGD is part of the fit."""
        return self.model in ("vae", "rbm")

    def refines(self, domain: Domain | None) -> bool:
        """Whether trained networks are moved to measured pairs and larger sets, not to item frequencies alone.

        Decoders only, since the moments of an RBM are not known; not of images, whose pixels are too many for pairs.
        """
        images = domain is not None and any(field.kind == "image" for field in domain.fields)
        return self.model == "vae" and self.calibrate and not images

    def to_json(self) -> dict[str, Any]:
        """Plain values for the plan file."""
        return asdict(self) | {"hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The inverse of `to_json`; unknown or missing names are refused."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise UsageError(
                f"the plan's settings do not match this version of dpgm (see {odd}); make the plan again."
            )
        settings = cls(**(values | {"hidden": tuple(values["hidden"])}))
        settings.check()
        return settings

    def check(self) -> None:
        """Every value is of its kind and in its range; a plan file may hold anything."""
        validation.one_of(get_args(Model), model=self.model)
        validation.one_of(get_args(Preset), preset=self.preset)
        validation.one_of(("cosine", "constant"), schedule=self.schedule)
        validation.one_of(("adam", "sgd"), optimizer=self.optimizer)
        validation.one_of((True, False), warm_start=self.warm_start, calibrate=self.calibrate)
        validation.whole(clusters=self.clusters, cluster_steps=self.cluster_steps, at_least=1, at_most=10_000)
        validation.whole(features=self.features, latent=self.latent, at_least=1, at_most=100_000)
        validation.whole(steps=self.steps, at_least=1, at_most=100_000_000)
        validation.fraction(sampling_rate=self.sampling_rate)
        validation.positive(learning_rate=self.learning_rate)
        validation.non_negative(averaged_tail=self.averaged_tail)
        if not self.hidden or self.averaged_tail > 1:
            raise UsageError(
                "the plan needs a hidden layer and an `averaged_tail` of at most 1; make the plan again."
            )
        for size in self.hidden:
            validation.whole(hidden=size, at_least=1, at_most=100_000)
        if self.norm_quantile is not None:
            validation.probability(norm_quantile=self.norm_quantile)
        if self.mean_length is not None:
            validation.positive(mean_length=self.mean_length)


def default_delta(records: int) -> float:
    """1 / (10 N): ten times smaller than what publishing one random record would satisfy."""
    return 1.0 / (10 * max(records, 1))


def choose_model(domain: Domain | None) -> Model:
    """The rule behind `model="auto"`: the image generator for image domains, products for everything else.

    Measured (docs/fidelity.md, "Is private SGD worth its budget?"): on msweb, plants, accidents, 100,000 transit
    records and Adult, products had smaller errors than VAEs trained by private SGD and refined to the same statistics,
    or equal ones (within .002), on sets of up to three items and on marginals, in a half to a third of the time. SGD
    won on sets of four and six items of plants at epsilon 1 (by 11 and 16 %) and lost on those of accidents (by 20 %);
    nothing public tells the two apart.
    """
    return "image" if _is_image(domain) else "products"


def _is_image(domain: Domain | None) -> bool:
    """One image, and at most a label beside it."""
    if domain is None:
        return False
    rest = [field for field in domain.fields if field.name != domain.label]
    return len(rest) == 1 and rest[0].kind == "image"


def default_clusters(records: int) -> int:
    """Networks of a mixture (k): grows with N, since each model only learns from its own cluster."""
    return min(max(round(records / 10_000), 1), 30)


def settle(config: Config, domain: Domain | None, records: int) -> Settings:
    """All settings of a fit, from the request and public numbers."""
    model = choose_model(domain) if config.model == "auto" else config.model
    if model == "image" and not _is_image(domain):
        raise UsageError(
            "`model` image needs a domain of one image and at most a label; use auto or another model."
        )
    if config.mean_length is not None and model not in ("vae", "rbm") and config.preset != "paper":
        raise UsageError(
            "`mean_length` is what networks start from; use it with model vae or rbm, or preset paper."
        )
    stated = assumed_mean_length(domain) if config.mean_length is None else config.mean_length
    if config.preset == "paper":
        # The paper's own choices (its section 6), under the corrected mechanisms; where it is silent, `NetworkRules`.
        if config.model == "auto":
            model = "vae"
        if model not in ("vae", "rbm"):
            raise UsageError("`preset` paper trains vae or rbm; got model " + repr(model) + ".")
        rate = min(1.0, RULES.paper_batch / max(records, 1))
        clusters = config.clusters or 10
        return Settings(
            model=model,
            preset="paper",
            clusters=clusters,
            cluster_steps=20,
            latent=2,
            sampling_rate=rate,
            steps=min(max(1, round(RULES.paper_epochs / rate)), RULES.paper_most_steps),
            learning_rate=RULES.paper_vae_rate if model == "vae" else RULES.paper_rbm_rate / clusters,
            schedule="cosine",
            optimizer="adam" if model == "vae" else "sgd",
            averaged_tail=0.0,
            norm_quantile=None,
            warm_start=False,
            calibrate=False,
            mean_length=stated,
        )
    clusters = config.clusters or (default_clusters(records) if model in ("vae", "rbm") else 1)
    rate = min(1.0, max(0.01, 200 / max(records, 1)))
    mean_length = stated if model in ("vae", "rbm") else None
    return Settings(model=model, clusters=clusters, sampling_rate=rate, mean_length=mean_length)
