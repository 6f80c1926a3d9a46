"""Sampling a release of the CDR shape (1,303 places, about 12 a record) to Parquet: records a second a core, memory.

`--quick` draws 100,000 records instead of a million. Processor time is reported beside wall time: it does not depend
on what else the machine does.
"""

import argparse
import json
import re
import tempfile
import time
from pathlib import Path

import torch

from dpgm.data.domain import Domain
from dpgm.networks.mixture import Mixture
from dpgm.networks.vae import VAE
from dpgm.products.model import Products
from dpgm.strategy.protocol import Generator
from dpgm.synthesis.sampling import sample_chunks

WIDTH, ONES = 1303, 12.0


def generators() -> dict[str, Generator]:
    """A mixture of 200 products and one of 10 VAEs, both of the right density."""
    domain = Domain.of_items(WIDTH)
    draws = torch.Generator().manual_seed(0)
    popularity = 1 / (torch.arange(WIDTH) + 10.0)
    chances = popularity * torch.rand((200, WIDTH), generator=draws) ** 4
    chances = (chances * (ONES / chances.sum(1, keepdim=True))).clamp(max=0.9)
    vae = VAE(domain)
    frequencies = (popularity * ONES / popularity.sum()).clamp(max=0.9).expand(10, -1)
    parameters = vae.warm(vae.initial(10, generator=draws), frequencies)
    return {
        "products": Products(domain, torch.full((200,), 1 / 200), chances),
        "vae": Mixture(vae, parameters, torch.full((10,), 0.1)),
    }


def peak_megabytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) // 1024 if found else 0


def measure(generator: Generator, count: int) -> dict[str, float]:
    from dpgm.data.writers import RecordWriter

    domain = Domain.of_items(WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        wall, processor = time.perf_counter(), time.process_time()
        with RecordWriter(Path(folder) / "x.parquet", domain) as writer:
            for chunk in sample_chunks(generator, count, seed=1, threads=1):
                writer.write(chunk)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {
        "records_per_second": round(count / wall),
        "records_per_processor_second": round(count / processor),
        "peak_megabytes": peak_megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", default="cpu", help="sampling runs on the CPU")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    for name, generator in generators().items():
        generator.sample(2000, generator=torch.Generator().manual_seed(0))  # compile kernels
        rows[name] = measure(generator, 100_000 if options.quick else 1_000_000)
        print(name, rows[name])
    if options.json is not None:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
