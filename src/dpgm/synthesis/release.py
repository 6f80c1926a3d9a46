"""The release of a fit: saving it as a folder, opening such a folder without trusting it, and signing it."""

import hashlib
import os
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpgm.data.atomic import atomic_file, atomic_folder, check_writable
from dpgm.data.domain import Domain
from dpgm.data.records import Dtypes, Records
from dpgm.errors import ArtefactError, PrivacyWarning, UsageError
from dpgm.notebook import html_table
from dpgm.privacy.attestation import ATTESTATION_NAME, Envelope, attest, read_attestation, statement
from dpgm.privacy.certificate import (
    CERTIFICATE_NAME,
    LARGEST_CERTIFICATE,
    Certificate,
    read_certificate,
)
from dpgm.privacy.untrusted_files import ReleaseFolder
from dpgm.strategy.protocol import Generator
from dpgm.synthesis.answers import CountAnswer, CountAnswers
from dpgm.synthesis.certificate_page import PAGE_NAME, certificate_page
from dpgm.synthesis.conditioning import Where
from dpgm.synthesis.measurements import MEASUREMENTS_NAME, MeasurementTable
from dpgm.synthesis.readme import release_readme
from dpgm.synthesis.sampling import Sample, with_layout
from dpgm.synthesis.tensors import tensor_bytes
from dpgm.synthesis.verification import (
    DOMAIN_NAME,
    MAX_DOMAIN_BYTES,
    MODEL_NAME,
    PRIVATE_RANDOMNESS,
    README_NAME,
    domain_text,
    examine,
    open_generator,
    read_domain,
    read_measurements,
)
from dpgm.validation import counted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEEDED_ADVICE = "it was made with a seeded generator, for tests or figures. Do not publish it or samples from it."


@dataclass(frozen=True)
class Release:
    """A generator with its domain and certificate; all a recipient needs."""

    domain: Domain
    generator: Generator
    certificate: Certificate
    measurements: MeasurementTable = field(default_factory=MeasurementTable)
    # Column types of the frame that was fitted; they are not saved with the release.
    dtypes: Dtypes = ()

    def __repr__(self) -> str:
        certificate = self.certificate
        budget = f"epsilon={certificate.epsilon:.4g}, delta={certificate.delta:.3g}"
        return f"Release({certificate.model['kind']}, {budget}, {counted(certificate.records, 'record')})"

    def _repr_html_(self) -> str:
        fields = ", ".join(f"{field.name} ({field.kind})" for field in self.domain.fields[:40])
        return html_table("Release", [*self.certificate.facts(), ("fields", fields)])

    def sample(self, count: int, *, seed: int | None = None, where: Where | None = None) -> Records:
        """`count` synthetic records; sampling is post-processing and costs no budget.

        Args:
            count: number of records.
            seed: with the same seed, the same records and values are drawn.
            where: a condition that all of them meet: `"age >= 65"`, `["milk", "sex=female"]` or
                `{"colour": ["red", "blue"]}`.
        """
        sample = Sample(self.generator, self.domain, count, seed=seed, where=where)
        drawn = sample.records()
        sample.warn_of_rejection()
        return replace(drawn, domain=with_layout(self.domain), dtypes=self.dtypes)

    def query(self, where: Where) -> CountAnswer:
        """How many records meet a condition such as `"age >= 65 and sex = f"`: an estimate and a 95 % interval.

        Post-processing, which costs no budget. `CountAnswers(release)` draws its sample once for many questions.
        """
        return CountAnswers(self).ask(where)

    def save(self, path: str | Path, *, force: bool = False, key: "Ed25519PrivateKey | None" = None) -> None:
        """Write the folder under a temporary name and rename it into place; with a `key`, sign it."""
        target = Path(path)
        if key is not None and not self.certificate.private:
            raise UsageError("a NOT PRIVATE release is not signed; fit without a seed.")
        check_target(target, force=force)
        with atomic_folder(target, force=force) as folder:
            contents = {
                MODEL_NAME: tensor_bytes(self.generator.state()),
                DOMAIN_NAME: domain_text(self.domain).encode(),
                README_NAME: release_readme(self.certificate, self.domain).encode(),
                MEASUREMENTS_NAME: self.measurements.content,
            }
            for name, content in contents.items():
                (folder / name).write_bytes(content)
            hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
            certificate = replace(self.certificate, files=hashes)
            written = certificate.to_json().encode()
            (folder / PAGE_NAME).write_text(certificate_page(certificate), "utf-8")
            if key is not None:
                (folder / ATTESTATION_NAME).write_text(attest(written, key), "utf-8")
            # The certificate comes last: a folder without one is not a release.
            (folder / CERTIFICATE_NAME).write_bytes(written)


def check_target(target: Path, *, force: bool = False) -> None:
    """Refuse a path where no release can be written; called before a fit spends anything.

    `force` replaces an earlier release or an empty folder, never anything else: a mistyped path must not cost data.
    """
    check_writable(target)
    if not os.path.lexists(target):
        return
    if not force:
        raise UsageError(f"{target} exists already; choose another name or pass `force=True`.")
    is_folder = target.is_dir() and not target.is_symlink()
    if not is_folder or (any(target.iterdir()) and not (target / "certificate.json").is_file()):
        raise UsageError(f"{target} is not a release, and `force` replaces only releases; choose another name.")


def load(path: str | Path, *, unverified: bool = False) -> Release:
    """Open a release; a damaged or forged folder raises one clear error.

    Whatever `verify` would refuse is refused, except that a release honestly marked NOT PRIVATE opens with a
    `PrivacyWarning`. Epsilon is recomputed as in `verify`, but cached on this machine, so that a second load is fast.

    Args:
        path: the folder.
        unverified: open it even if it does not verify; sizes, names and values are checked all the same, to keep this
            machine safe.

    Raises:
        ArtefactError: the folder is damaged, or a check of `verify` does not hold.
    """
    folder = ReleaseFolder(path)
    if unverified:
        certificate = read_certificate(folder)
        domain = read_domain(folder.text(DOMAIN_NAME, MAX_DOMAIN_BYTES))
        measurements = read_measurements(folder, certificate, domain)
        return Release(domain, open_generator(folder, certificate, domain), certificate, measurements)
    verification, opened = examine(folder, cache=True)
    failed = [check for check in verification.failed if check.name != PRIVATE_RANDOMNESS]
    if failed or opened is None or verification.certificate.private != verification.ok:
        first = (failed or verification.failed)[0]
        raise ArtefactError(
            f"{path} does not verify ({first.name}: {first.why.rstrip('.')}); get it again, or open it all the "
            "same with `unverified=True`."
        )
    if not verification.certificate.private:
        warnings.warn(f"{path} is NOT PRIVATE: {_SEEDED_ADVICE}", PrivacyWarning, stacklevel=2)
    domain, generator, measurements = opened
    return Release(domain, generator, verification.certificate, measurements)


def sign(path: str | Path, key: "Ed25519PrivateKey") -> None:
    """Sign a release that verifies, beside whoever signed it before.

    Raises:
        ArtefactError: the release does not verify, so nobody should vouch for it.
    """
    folder = ReleaseFolder(path)
    verification, _ = examine(folder)
    if not verification.ok:
        first = verification.failed[0]
        raise ArtefactError(f"{path} does not verify and was not signed ({first.name}: {first.why.rstrip('.')}).")
    certificate = folder.read(CERTIFICATE_NAME, LARGEST_CERTIFICATE)
    envelope = read_attestation(folder) or Envelope(statement(certificate), {})
    with atomic_file(folder.path / ATTESTATION_NAME) as temporary:
        temporary.write_text(envelope.signed(key).to_json(), "utf-8")
