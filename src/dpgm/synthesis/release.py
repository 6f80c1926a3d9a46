"""The release folder: what leaves, and how a recipient opens it without trusting it."""

import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from dpgm.data.atomic import atomic_folder, check_writable
from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, UsageError
from dpgm.privacy.certificate import Certificate, read_certificate
from dpgm.synthesis.generator import Generator, rebuild
from dpgm.synthesis.readme import release_readme
from dpgm.synthesis.sampling import sample
from dpgm.synthesis.tensors import read_tensors, write_tensors

MAX_DOMAIN_BYTES = 200_000_000


@dataclass(frozen=True)
class Release:
    """A generator with its domain and certificate; all a recipient needs."""

    domain: Domain
    generator: Generator
    certificate: Certificate

    def sample(self, count: int, *, seed: int | None = None) -> Records:
        """`count` synthetic records; free, since sampling is post-processing."""
        return sample(self.generator, self.domain, count, seed=seed)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder under a temporary name and rename it into place once."""
        target = Path(path)
        check_target(target, force=force)
        with atomic_folder(target, force=force) as folder:
            write_tensors(folder / "model.safetensors", self.generator.state())
            (folder / "domain.json").write_text(json.dumps(domain_to_plain(self.domain), indent=1), "utf-8")
            (folder / "README.md").write_text(release_readme(self.certificate, self.domain), "utf-8")
            hashes = {name: _sha256(folder / name) for name in ("model.safetensors", "domain.json", "README.md")}
            certificate = replace(self.certificate, files=hashes)
            # The certificate comes last: a folder without one is not a release.
            (folder / "certificate.json").write_text(certificate.to_json(), "utf-8")


def check_target(target: Path, *, force: bool = False) -> None:
    """Refuse a place where no release can be written; called before a fit spends anything.

    `force` replaces an earlier release or an empty folder, never anything else: a slip of the pen must not cost data.
    """
    check_writable(target)
    if not os.path.lexists(target):
        return
    if not force:
        raise UsageError(f"{target} exists already; choose another name or pass --force.")
    is_folder = target.is_dir() and not target.is_symlink()
    if not is_folder or (any(target.iterdir()) and not (target / "certificate.json").is_file()):
        raise UsageError(f"{target} is not a release, and --force replaces only releases; choose another name.")


def load(path: str | Path) -> Release:
    """Open a release; a damaged or hostile folder gives one plain error."""
    folder = Path(path)
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a release folder.")
    certificate = read_certificate(folder)
    for name, digest in certificate.files.items():
        file = folder / name
        if file.is_symlink() or not file.is_file() or _sha256(file) != digest:
            raise ArtefactError(f"{name} of the release is missing or is not the file the certificate describes.")
    domain = _read_domain(folder / "domain.json")
    tensors = read_tensors(folder / "model.safetensors")
    architecture = dict(certificate.model)
    generator = rebuild(str(architecture.get("kind")), architecture, tensors, domain)
    return Release(domain, generator, certificate)


def _read_domain(path: Path) -> Domain:
    try:
        if path.stat().st_size > MAX_DOMAIN_BYTES:
            raise ArtefactError("domain.json is too large; the release is damaged.")
        return domain_from_plain(json.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, ArtefactError):
            raise
        raise ArtefactError("domain.json of the release cannot be read; it is damaged.") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
