"""A small release that verifies, made without a fit, and ways to forge it."""

import hashlib
import json
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dpgm.data.domain import Domain
from dpgm.errors import DpgmError
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.privacy.accountant import ACCOUNTANT, cost, replace_one_epsilon
from dpgm.privacy.certificate import Certificate, read_certificate
from dpgm.privacy.odds import odds
from dpgm.products.model import Products
from dpgm.strategy.settings import Config
from dpgm.synthesis.certificate_page import certificate_page
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.readme import MADE_IN_MEMORY, release_readme, statements_of
from dpgm.synthesis.release import Release
from dpgm.synthesis.verification import read_domain
from synthesis_data import SETS, some_records

RECORDS = 20_000
DELTA = 1e-6


def some_release(domain: Domain = SETS, **changes: Any) -> Release:
    """A release of products with the certificate that a fit of `RECORDS` records would have."""
    plan = make_plan(Config(1.0, DELTA, model="products"), RECORDS, domain)
    frequencies = torch.from_numpy(some_records(domain, 200).to_dense().mean(0)).clamp(0.01, 0.99)
    for block in domain.blocks:
        if block.softmax:
            frequencies[block.start : block.stop] /= frequencies[block.start : block.stop].sum()
    generator = Products(domain, torch.tensor([0.5, 0.5]), frequencies.expand(2, -1).clone())
    values: dict[str, Any] = {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "unit": "row",
        "records": plan.records,
        "planned": plan.mechanisms,
        "mechanisms": plan.mechanisms,
        "accountant": ACCOUNTANT,
        "randomness": SystemRandomness().name,
        "private": True,
        "software": "dpgm 0.1.0",
        "model": generator.architecture,
        "files": {},
        "statements": statements_of(MADE_IN_MEMORY),
        "epsilon_replace_one": replace_one_epsilon(plan.mechanisms, plan.delta),
        "plan": plan.public_numbers(),
        "odds": odds(plan.mechanisms, plan.delta),
    }
    return Release(domain, generator, Certificate(**(values | changes)))


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the certificate's document and write it, and the page that follows from it, as dpgm would."""
    path = folder / "certificate.json"
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    rewrite_page(folder)


def rehash(folder: Path) -> None:
    """Renew the hashes of all files in the certificate, as a forger would."""

    def renew(document: dict[str, Any]) -> None:
        for name in document["files"]:
            document["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()

    edit(folder, renew)


def rewrite_page(folder: Path) -> None:
    """Write the page that follows from the certificate as it is now, if it can be read."""
    with suppress(DpgmError):
        (folder / "certificate.html").write_text(certificate_page(read_certificate(folder)), "utf-8")


def rewrite_readme(folder: Path) -> None:
    """Write the README that follows from the certificate as it is now, and renew its hash."""
    domain = read_domain((folder / "domain.json").read_text("utf-8"))
    (folder / "README.md").write_text(release_readme(read_certificate(folder), domain), "utf-8")
    rehash(folder)


def rewrite_epsilons(folder: Path) -> None:
    """State what the mechanisms cost at the certificate's delta, in the certificate and in the README."""
    certificate = read_certificate(folder)
    mechanisms, delta = certificate.mechanisms, certificate.delta
    epsilons = {
        "epsilon": cost(mechanisms, delta).epsilon,
        "epsilon_replace_one": replace_one_epsilon(mechanisms, delta),
        "odds": asdict(odds(mechanisms, delta)),
    }
    edit(folder, lambda document: document.update(epsilons))
    rewrite_readme(folder)


def tensor_file(folder: Path) -> tuple[bytes, bytes]:
    """The header and the data of the tensor file."""
    raw = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    return raw[8 : 8 + length], raw[8 + length :]


def write_tensor_file(folder: Path, header: bytes, data: bytes, length: int | None = None) -> None:
    """Write the tensor file with a header that may state another length, and renew its hash."""
    size = len(header) if length is None else length
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + header + data)
    rehash(folder)
