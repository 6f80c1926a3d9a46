"""Verification of a release from its folder alone, without trusting whoever made it.

Every file must be exactly what `dpgm` would have written: the README follows from the certificate and the domain, the
domain and the tensors are in their canonical form, the mechanisms are those that such a fit runs, and both epsilons are
the cost of those mechanisms. So a reader can rely on what the folder says, or learns which check failed. Only a
signature can tell who wrote it.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.errors import ArtefactError, DpgmError, PrivacyWarning, UsageError
from dpgm.mechanisms.randomness import PRIVATE_NAMES
from dpgm.privacy.accountant import ACCOUNTANT, cost
from dpgm.privacy.attestation import ATTESTATION_NAME, why_no_attestation, why_not_signed
from dpgm.privacy.certificate import (
    CERTIFICATE_NAME,
    LARGEST_CERTIFICATE,
    Certificate,
    read_certificate,
)
from dpgm.privacy.events import Adjacency
from dpgm.privacy.keys import key_fingerprint, read_public_key
from dpgm.privacy.odds import odds
from dpgm.privacy.strict_json import strict_json
from dpgm.privacy.untrusted_files import ReleaseFolder
from dpgm.strategy.protocol import Generator
from dpgm.strategy.settings import Settings
from dpgm.synthesis.certificate_page import PAGE_NAME, certificate_page
from dpgm.synthesis.domain_discovery import discovery_statements
from dpgm.synthesis.measurements import (
    MAX_MEASUREMENTS_BYTES,
    MEASUREMENTS_NAME,
    MeasurementTable,
    why_not_of,
)
from dpgm.synthesis.plan import Plan, read_settings
from dpgm.synthesis.readme import release_readme, why_sentences_differ
from dpgm.synthesis.strategies import rebuild, strategy_of
from dpgm.synthesis.tensors import MAX_BYTES, read_tensors

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MODEL_NAME, DOMAIN_NAME, README_NAME = "model.safetensors", "domain.json", "README.md"
FILES = (MODEL_NAME, DOMAIN_NAME, README_NAME, MEASUREMENTS_NAME)
MAX_DOMAIN_BYTES = 200_000_000
MAX_PAGE_BYTES = 500_000  # of certificate.html; ours has about 15,000
LARGEST_FILES = {  # bytes
    MODEL_NAME: MAX_BYTES,
    DOMAIN_NAME: MAX_DOMAIN_BYTES,
    README_NAME: 50_000_000,
    MEASUREMENTS_NAME: MAX_MEASUREMENTS_BYTES,
}
PRIVATE_RANDOMNESS = "private randomness"  # the only check that an honest NOT PRIVATE release fails
_SOFTWARE = re.compile(r"dpgm [0-9]{1,6}(\.[0-9]{1,6}){0,3}([abc.+-][a-z0-9]{1,20})?")
ATTESTATION_CHECK = "attestation, if any"
_OPENS = "the generator opens"
_LISTED = f"{MEASUREMENTS_NAME} holds what the mechanisms released"
_NOT_TRIED = "not tried, because another check failed"
# Relative tolerance below the recomputed epsilon: accountants of other versions discretise a little differently.
EPSILON_SLACK = 1e-4
# Relative tolerance above it: a certificate that states much more than its mechanisms cost has lost a mechanism.
EPSILON_EXCESS = 1e-3
# Of 100, by which the odds may lie above the recomputed ones: one step of their rounding.
ODDS_EXCESS = 0.1


@dataclass(frozen=True)
class Check:
    """One named check, whether it passed, and why not."""

    name: str
    ok: bool
    why: str = ""


@dataclass(frozen=True)
class Verification:
    """All checks of one release.

    `epsilon` is the recomputed cost of the mechanisms, infinite if it could not be computed; `warnings` are about
    guarantees that hold but are weak. `signature` is "none", "not checked" (no key was given), "valid" or "not valid".
    """

    certificate: Certificate
    checks: tuple[Check, ...]
    epsilon: float
    warnings: tuple[str, ...] = ()
    signature: str = "none"

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.ok)


def verify(path: str | Path, *, signed_by: "str | Path | Sequence[str | Path]" = ()) -> Verification:
    """Check a release folder; every figure is recomputed.

    Args:
        path: the folder.
        signed_by: public key files (`dpgm keys create`); the release must be signed with the private key of each.

    Returns:
        every check with its outcome; a check that fails is reported, not raised.

    Raises:
        ArtefactError: the certificate cannot be read at all.
        UsageError: the key cannot be read.
    """
    named = (signed_by,) if isinstance(signed_by, str | Path) else signed_by
    return examine(ReleaseFolder(path), keys=[read_public_key(one) for one in named])[0]


def examine(
    folder: ReleaseFolder, *, keys: "Sequence[Ed25519PublicKey]" = (), cache: bool = False
) -> tuple[Verification, tuple[Domain, Generator, MeasurementTable] | None]:
    """All checks of a release folder; and its contents if all of them passed, or only randomness failed.

    Cheap checks come first, and nothing is computed or opened once a check has failed: a forged certificate cannot
    cause hours of accounting. The release must be signed by each of `keys`. With `cache`, figures that this machine
    has computed before may be looked up.
    """
    certificate = read_certificate(folder)
    promised, weaknesses = promise_checks(certificate)
    checks = [
        *promised,
        *_text_checks(folder, certificate),
        *file_checks(folder, certificate),
        _page_check(folder, certificate),
        _check(ATTESTATION_CHECK, why_no_attestation(folder)),
    ]
    signatures = [_check(f"signed by {key_fingerprint(key)}", why_not_signed(folder, key)) for key in keys]
    checks += signatures
    signature = "not checked" if ATTESTATION_NAME in folder.names else "none"
    if keys and signature != "none":
        signature = "valid" if all(check.ok for check in signatures) else "not valid"
    domain, readable = _domain_check(folder)
    checks.append(readable)
    if domain is not None:
        checks += [_plan_check(certificate, domain), _readme_check(folder, certificate, domain)]
    epsilon = float("inf")
    if all(check.ok for check in checks):
        epsilon, accounting = accounting_checks(certificate, cache=cache)
        checks += accounting
    else:
        checks.append(_check("epsilon", _NOT_TRIED))
    generator = measurements = None
    if domain is not None and all(check.ok for check in checks):
        generator, opens = _generator_check(folder, certificate, domain)
        measurements, listed = _measurements_check(folder, certificate, domain)
        checks += [opens, listed]
    else:
        checks += [_check(_OPENS, _NOT_TRIED), _check(_LISTED, _NOT_TRIED)]
    checks.append(_randomness_check(certificate))
    verification = Verification(certificate, tuple(checks), epsilon, weaknesses, signature)
    if domain is None or generator is None or measurements is None:
        return verification, None
    return verification, (domain, generator, measurements)


def plan_of(certificate: Certificate) -> Plan:
    """The plan that a certificate says was followed; raises UsageError if it does not describe a plan."""
    numbers = certificate.plan
    target, width = numbers.get("target_epsilon"), numbers.get("width")
    known = {"target_epsilon", "width", "settings"} | ({"domain", "rows_per_person"} & set(numbers))
    if set(numbers) != known or not isinstance(numbers["settings"], dict):
        raise UsageError("the certificate does not say which plan was followed.")
    if not isinstance(target, float) or not certificate.epsilon <= target * (1 + 1e-6) or target > 100:
        raise UsageError("the plan's target epsilon is below what was spent, or no budget at all.")
    if width is not None and (not isinstance(width, int) or isinstance(width, bool)):
        raise UsageError("the plan's width is not a number.")
    rows = numbers.get("rows_per_person", 1)
    if "rows_per_person" in numbers and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 2):
        raise UsageError("the plan's rows per person are not a number above 1.")
    settings = read_settings(numbers["settings"])
    if ("domain" in numbers) != (settings.discovery is not None):
        raise UsageError("the plan's rules of discovery are those of another domain.")
    return Plan(
        target_epsilon=target,
        epsilon=certificate.epsilon,
        delta=certificate.delta,
        records=certificate.records,
        width=width,
        settings=settings,
        mechanisms=certificate.mechanisms,
        adjacency=certificate.adjacency,
        rows_per_person=rows,
    )


def stated_domain(certificate: Certificate) -> Domain | None:
    """The open domain that a fit started from; None if it started from the domain of the release.

    Raises:
        UsageError: it is not a domain, or it leaves nothing open.
    """
    if "domain" not in certificate.plan:
        return None
    domain = domain_from_plain(certificate.plan["domain"])
    if not domain.is_open or certificate.plan["domain"] != domain_to_plain(domain):
        raise UsageError("the domain in the certificate's plan is not an open domain as dpgm writes it.")
    return domain


def _check(name: str, why: str | None) -> Check:
    """A check that passed unless there is a reason why not."""
    return Check(name, why is None, why or "")


def _same(found: str, written: str) -> str | None:
    return None if found == written else "it is not written as dpgm writes it"


def _reason(error: DpgmError) -> str:
    return str(error).partition(";")[0].rstrip(".")


def promise_checks(certificate: Certificate) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Whether a fit would accept the budget and the run followed its plan; and warnings if the budget is weak."""
    why = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        try:
            validation.budget(epsilon=certificate.epsilon, delta=certificate.delta, records=certificate.records)
        except DpgmError as error:
            why = str(error)
    add_remove = certificate.adjacency is Adjacency.ADD_REMOVE
    checks = (
        _check("budget", why),
        _check("adjacency", None if add_remove else "fits are accounted under add-remove only"),
        _check("plan equals run", _why_mechanisms_differ(certificate)),
    )
    return checks, tuple(str(entry.message) for entry in caught if issubclass(entry.category, PrivacyWarning))


def _why_mechanisms_differ(certificate: Certificate) -> str | None:
    planned, ran = Counter(certificate.planned), Counter(certificate.mechanisms)
    for missing in planned - ran:
        return f"the mechanism {missing.name!r} of the plan is missing or differs"
    for extra in ran - planned:
        return f"the mechanism {extra.name!r} is not in the plan"
    return None if ran else "no mechanism is listed"


def accounting_checks(certificate: Certificate, *, cache: bool = False) -> tuple[float, tuple[Check, ...]]:
    """Epsilon recomputed from the mechanisms, and checks of both epsilons that the certificate states.

    With `cache`, figures that this machine has computed before are looked up.
    """
    try:
        recomputed, replaced = (
            cost(certificate.mechanisms, certificate.delta, adjacency, cache=cache).epsilon
            for adjacency in (certificate.adjacency, Adjacency.REPLACE_ONE)
        )
    except DpgmError as error:
        return float("inf"), (_check("epsilon", f"the mechanisms cannot be costed: {error}"),)
    stated, stated_replace_one = certificate.epsilon, certificate.epsilon_replace_one
    too_low = too_high = differs = None
    if stated < _lowest(recomputed):
        too_low = f"it states {stated:.6g}, its mechanisms cost {recomputed:.6g}"
    if stated > _highest(recomputed):
        too_high = f"it states {stated:.6g}, but the mechanisms listed cost only {recomputed:.6g}: one is missing"
    if stated_replace_one is None or not _lowest(replaced) <= stated_replace_one <= _highest(replaced):
        text = "none" if stated_replace_one is None else f"{stated_replace_one:.6g}"
        differs = f"it states {text}, its mechanisms cost {replaced:.6g}"
    return recomputed, (
        _check("epsilon", too_low),
        _check("mechanisms complete", too_high),
        _check("epsilon if a record is replaced", differs),
        _check("odds", _why_odds_differ(certificate, cache)),
    )


def _why_odds_differ(certificate: Certificate, cache: bool) -> str | None:
    """Why the odds are not those of the mechanisms, rounded up; another machine may round one step further up."""
    stated = certificate.odds
    if stated is None:
        return "it states none"
    found = odds(certificate.mechanisms, certificate.delta, cache=cache)
    for name, figure in asdict(found).items():
        told = getattr(stated, name)
        if not figure - 1e-6 <= told <= figure + ODDS_EXCESS + 1e-6:
            return f"it states {told:.6g} of 100 ({name}), its mechanisms allow {figure:.6g}"
    return None


def _lowest(recomputed: float) -> float:
    return recomputed * (1 - EPSILON_SLACK) - 1e-6


def _highest(recomputed: float) -> float:
    return recomputed * (1 + EPSILON_EXCESS) + 1e-6


def file_checks(folder: ReleaseFolder, certificate: Certificate) -> tuple[Check, ...]:
    """Whether the folder has exactly the files of a release, unchanged; an attestation is optional."""
    present = folder.names - {ATTESTATION_NAME, PAGE_NAME}  # the page is written again and compared as a whole
    listed = _why_names_differ(set(certificate.files), set(FILES), "the certificate does not list {!r}")
    in_folder = _why_names_differ(present, {CERTIFICATE_NAME, *FILES}, "{!r} is missing")
    hashes = (_check(f"sha256 of {name}", _why_hash_differs(folder, name, certificate)) for name in sorted(FILES))
    return (_check("listed files", listed), _check("folder listing", in_folder), *hashes)


def _why_names_differ(names: Set[str], expected: Set[str], missing: str) -> str | None:
    for extra in sorted(names - expected):
        return f"{extra[:60]!r} is not a file of a release"
    for absent in sorted(expected - names):
        return missing.format(absent)
    return None


def _why_hash_differs(folder: ReleaseFolder, name: str, certificate: Certificate) -> str | None:
    try:
        same = folder.sha256(name, LARGEST_FILES[name]) == certificate.files.get(name, "")
    except ArtefactError as error:
        return str(error)
    return None if same else "the file is not the one the certificate describes"


def _text_checks(folder: ReleaseFolder, certificate: Certificate) -> tuple[Check, ...]:
    """Whether the certificate is in its canonical form, and has only sentences that `dpgm` writes."""
    text = folder.text(CERTIFICATE_NAME, LARGEST_CERTIFICATE)
    try:
        stated = stated_domain(certificate)
        planned = plan_of(certificate)
        rules, rows = planned.settings.discovery, planned.rows_per_person
        found = () if stated is None else discovery_statements(stated, certificate.delta, rules)
    except DpgmError as error:
        return (_check("certificate text", _reason(error)),)
    why = why_sentences_differ(certificate, found, rows)
    if why is None and (not _SOFTWARE.fullmatch(certificate.software) or certificate.accountant != ACCOUNTANT):
        why = f"it was made by another version ({certificate.software[:60]!r}); verify it with that one"
    return (_check("certificate text", _same(text, certificate.to_json())), _check("sentences", why))


def _randomness_check(certificate: Certificate) -> Check:
    """Whether the noise came from private sources, each listed once and in order, as a fit writes them."""
    sources = certificate.randomness.split("; ")
    unknown = [source for source in sources if source not in PRIVATE_NAMES]
    why = None
    if not certificate.private:
        why = "the run was seeded or otherwise marked NOT PRIVATE"
    elif unknown:
        why = f"it is called private, but its noise came from {unknown[0][:60]!r}"
    elif sources != sorted(set(sources)):
        why = "a source of noise is listed twice or out of order"
    return _check(PRIVATE_RANDOMNESS, why)


def _domain_check(folder: ReleaseFolder) -> tuple[Domain | None, Check]:
    try:
        text = folder.text(DOMAIN_NAME, LARGEST_FILES[DOMAIN_NAME])
        domain = read_domain(text)
    except ArtefactError as error:
        return None, _check(DOMAIN_NAME, str(error))
    return domain, _check(DOMAIN_NAME, _same(text, domain_text(domain)))


def read_domain(text: str) -> Domain:
    """The domain of a release; raises ArtefactError in one sentence."""
    try:
        return domain_from_plain(strict_json(text, DOMAIN_NAME, MAX_DOMAIN_BYTES))
    except DpgmError as error:
        raise ArtefactError(f"domain.json of the release cannot be read: {error}") from error


def domain_text(domain: Domain) -> str:
    """The text of domain.json in a release."""
    return json.dumps(domain_to_plain(domain), indent=1)


def _plan_check(certificate: Certificate, domain: Domain) -> Check:
    """Whether a fit with these public numbers runs exactly the listed mechanisms and makes a model of this kind."""
    label = "mechanisms of such a fit"
    try:
        plan = plan_of(certificate)
        stated = stated_domain(certificate)
        if stated is not None:
            _check_discovered(stated, domain)
            domain = stated
        plan.check_fits(certificate.records, domain)
        plan.check_complete(domain)
    except DpgmError as error:
        return _check(label, _reason(error))
    return _check(label, _why_model_differs(plan.settings, certificate.model))


def _check_discovered(stated: Domain, closed: Domain) -> None:
    """Refuse a domain that discovery could not have made from the stated one.

    Raises:
        UsageError: a field has another name or kind, a closed field differs, or a number exceeds its stated range.
    """
    same = [field.name for field in stated.fields] == [field.name for field in closed.fields]
    same = same and (stated.label, stated.unread) == (closed.label, closed.unread)
    same = same and [one.source for one in stated.constraints] == [one.source for one in closed.constraints]
    if not same or closed.is_open:
        raise UsageError("the domain of the release does not follow from the one that was stated.")
    for before, after in zip(stated.fields, closed.fields, strict=True):
        if not before.may_become(after):
            raise UsageError(
                f"the field {before.name!r} of the release does not follow from the one that was stated."
            )


def _why_model_differs(settings: Settings, model: Any) -> str | None:
    """Why a fit with these settings does not make a model of this architecture; None if it does."""
    if model.get("kind") != settings.model:
        return "the model is of another kind than the plan's"
    for name, value in strategy_of(settings.model).architecture(settings.family).items():
        if model.get(name) != value:
            return f"the model's {name} are not the plan's"
    return None


def _readme_check(folder: ReleaseFolder, certificate: Certificate, domain: Domain) -> Check:
    label = f"{README_NAME} says what the certificate says"
    try:
        same = folder.text(README_NAME, LARGEST_FILES[README_NAME]) == release_readme(certificate, domain)
    except ArtefactError as error:
        return _check(label, str(error))
    return _check(label, None if same else "it was changed, or written by another version")


def _page_check(folder: ReleaseFolder, certificate: Certificate) -> Check:
    """Whether certificate.html is what `dpgm` writes for this certificate, byte for byte."""
    label = f"{PAGE_NAME} says what the certificate says"
    try:
        same = folder.text(PAGE_NAME, MAX_PAGE_BYTES) == certificate_page(certificate)
    except ArtefactError as error:
        return _check(label, str(error))
    return _check(label, None if same else "it was changed, or written by another version")


def _generator_check(
    folder: ReleaseFolder, certificate: Certificate, domain: Domain
) -> tuple[Generator | None, Check]:
    """Whether the generator can be rebuilt from the tensors: a correct hash does not make a file valid."""
    try:
        generator = open_generator(folder, certificate, domain)
    except ArtefactError as error:
        return None, _check(_OPENS, str(error))
    if {"kind": generator.kind, **generator.architecture} != dict(certificate.model):
        return None, _check(_OPENS, "the description of the model does not match its tensors")
    return generator, _check(_OPENS, None)


def _measurements_check(
    folder: ReleaseFolder, certificate: Certificate, domain: Domain
) -> tuple[MeasurementTable | None, Check]:
    """Whether the released statistics are a table as `dpgm` writes it, of mechanisms that ran."""
    try:
        return read_measurements(folder, certificate, domain), _check(_LISTED, None)
    except ArtefactError as error:
        return None, _check(_LISTED, str(error))


def read_measurements(folder: ReleaseFolder, certificate: Certificate, domain: Domain) -> MeasurementTable:
    """The released statistics in an untrusted folder; raises ArtefactError if they are not valid."""
    found = MeasurementTable.from_bytes(folder.read(MEASUREMENTS_NAME, MAX_MEASUREMENTS_BYTES), domain)
    why = why_not_of(found, certificate.mechanisms)
    if why is not None:
        raise ArtefactError(f"{MEASUREMENTS_NAME} is not that of a fit: {why}")
    return found


def open_generator(folder: ReleaseFolder, certificate: Certificate, domain: Domain) -> Generator:
    """The generator in an untrusted folder; raises ArtefactError if it is not valid."""
    tensors = read_tensors(folder.read(MODEL_NAME, LARGEST_FILES[MODEL_NAME]), MODEL_NAME)
    try:
        settings = plan_of(certificate).settings.family
    except UsageError:
        settings = None
    architecture = dict(certificate.model)
    return rebuild(str(architecture.get("kind")), architecture, tensors, domain, settings)
