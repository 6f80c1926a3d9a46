"""Speed of one private training step: ours, our own without privacy, plain autograd, and Opacus where installed.

    python benchmarks/training.py [--quick] [--json FILE] [--device cpu|cuda] [--epoch]

One thread. What is compared runs interleaved; times are CPU seconds of this process (on a shared machine they are
steadier than the clock; on CUDA the clock counts), reported as medians and ratios. Keys of --json:

    step_ratio            private step / autograd + Adam without privacy, by batch size
    own_nonprivate_ratio  private step / our own step without clipping and noise, by batch size
    opacus_ghost_ratio    Opacus ghost clipping / our private step, by batch size
    opacus_default_ratio  Opacus hooks / our private step, by batch size
    k10_ratio             ten models at batch 4096 / one model
    cdr_vs_autograd       dense autograd without privacy / our private step, 1303 items, about 12 a record, batch 4096
    cdr_vs_opacus_ghost   Opacus ghost clipping / our private step on the same
    rbm_ratio             private RBM step / its own without privacy, batch 600
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.normals import fill_with_normals
from dpgm.mechanisms.query import View
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.private_sgd import Trainer, TrainingSettings
from dpgm.networks.rbm import RBM
from dpgm.networks.vae import VAE

Step = Callable[[], None]
HIDDEN, LATENT = 200, 2
RATE = 1e-3


# -- data ---------------------------------------------------------------------------------------------------


def images(count: int, rng: np.random.Generator) -> Records:
    """784 pixels, 19 % of them on, as in MNIST."""
    level = np.clip(rng.normal(0.19, 0.15, 784), 0.0, 0.9)
    return Records.from_dense(rng.random((count, 784)) < level * 0.19 / level.mean(), Domain.of_items(784))


def calls(count: int, rng: np.random.Generator, items: int = 1303, mean: float = 12.0) -> Records:
    """The shape of call records: 1303 items of very different popularity, about 12 a record."""
    popularity = 1.0 / np.arange(1, items + 1) ** 0.8
    popularity /= popularity.sum()
    lengths = rng.poisson(mean * 1.17, count)
    drawn = rng.choice(items, size=lengths.sum(), p=popularity)
    keys = np.unique(np.repeat(np.arange(count), lengths) * items + drawn)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys // items, minlength=count))])
    return Records(Domain.of_items(items), indptr, (keys % items).astype(np.int16))


# -- contestants ----------------------------------------------------------------------------------------------


class Network(torch.nn.Module):
    """The same VAE in ordinary PyTorch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder, self.heads = torch.nn.Linear(width, HIDDEN), torch.nn.Linear(HIDDEN, 2 * LATENT)
        self.decoder, self.output = torch.nn.Linear(LATENT, HIDDEN), torch.nn.Linear(HIDDEN, width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits, latent mean and log-variance."""
        mean, spread = self.heads(F.relu(self.encoder(x))).chunk(2, dim=1)
        latent = mean + torch.exp(0.5 * spread) * torch.randn_like(mean)
        return self.output(F.relu(self.decoder(latent))), mean, spread


def loss_per_record(network: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    logits, mean, spread = network(x)
    cross = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
    return cross - 0.5 * (1 + spread - mean.square() - spread.exp()).sum(1)


def batches(records: Records, size: int, device: str) -> Callable[[], torch.Tensor]:
    """Dense batches of a fixed size from dense data in memory: what an ordinary loop would see at best."""
    dense = torch.from_numpy(records.to_dense()).to(device)
    return lambda: dense[torch.randint(len(dense), (size,), device=device)]


def autograd_step(records: Records, size: int, device: str) -> Step:
    network, draw = Network(records.width).to(device), batches(records, size, device)
    optimizer = torch.optim.Adam(network.parameters(), RATE)

    def step() -> None:
        optimizer.zero_grad()
        (loss_per_record(network, draw()).sum() / size).backward()
        optimizer.step()

    return step


def opacus_step(records: Records, size: int, *, ghost: bool) -> Step | None:
    try:
        from opacus.grad_sample import GradSampleModule
        from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
            GradSampleModuleFastGradientClipping,
        )
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
    except ImportError:
        return None
    draw, network = batches(records, size, "cpu"), Network(records.width)
    options = {"noise_multiplier": 1.0, "max_grad_norm": 100.0, "expected_batch_size": size}
    adam = torch.optim.Adam(network.parameters(), RATE)
    if not ghost:
        wrapped, optimizer = GradSampleModule(network, loss_reduction="sum"), DPOptimizer(adam, **options)

        def default() -> None:
            optimizer.zero_grad()
            loss_per_record(wrapped, draw()).sum().backward()
            optimizer.step()

        return default
    thin = GradSampleModuleFastGradientClipping(
        network, max_grad_norm=100.0, use_ghost_clipping=True, loss_reduction="sum"
    )
    fast = DPOptimizerFastGradientClipping(adam, loss_reduction="sum", **options)

    def step() -> None:
        fast.zero_grad()
        DPTensorFastGradientClipping(thin, fast, loss_per_record(thin, draw()), "sum").backward()
        fast.step()

    return step


def trainer(
    records: Records,
    size: int,
    *,
    model: VAE | RBM | None = None,
    clusters: int = 1,
    device: str = "cpu",
    decline: float = 0.75,
) -> Trainer:
    gateway = Gateway(records, randomness=SystemRandomness())
    if clusters > 1:
        # Uneven clusters: shares fall by a quarter from one to the next.
        shares = decline ** np.arange(clusters)
        routed = np.random.default_rng(0).choice(clusters, size=len(records), p=shares / shares.sum())
        gateway.keep("clusters", lambda _: routed)
    adam = OptimizerSettings(learning_rate=RATE, schedule="constant", averaged_tail=0.0)
    settings = TrainingSettings(
        steps=10**9,
        sampling_rate=size / len(records),
        norm_noise=4.8,
        gradient_noise=1.1,
        records=len(records),
        optimizer=adam,
    )
    return Trainer(
        gateway,
        model or VAE(records.domain, (HIDDEN,), LATENT),
        settings,
        clusters=clusters,
        generator=torch.Generator().manual_seed(0),
        device=device,
    )


def private_step(records: Records, size: int, **options: object) -> Step:
    made = trainer(records, size, **options)  # type: ignore[arg-type]
    return lambda: made.run(1)


def nonprivate_step(records: Records, size: int, model: VAE | RBM | None = None) -> Step:
    """Our own forward, backward and optimiser without norms, clipping, noise or gateway."""
    made = trainer(records, size, model=model)
    rng, counter = np.random.default_rng(1), iter(range(10**9))
    gradient_pass, ones, source = made._pass, torch.ones(size), SystemRandomness()

    def draw(rows: np.ndarray, out: torch.Tensor) -> None:
        fill_with_normals(out, source)

    def step() -> None:
        sample = np.sort(rng.choice(len(records), size, replace=False))
        gradient_pass._batches.load(View(records, {}, sample, draw))
        batch = gradient_pass._batches.batch()
        batch.weighted_sum(made.model.factors(batch), ones, gradient_pass._sum)
        made._update(gradient_pass._sum.flat, 1e30, next(counter))

    return step


# -- timing -----------------------------------------------------------------------------------------------------


def medians(steps: dict[str, Step | None], seconds: float, least: int = 5) -> dict[str, float]:
    """Milliseconds a step of every contestant, interleaved so that all meet the same disturbances."""
    running = {name: step for name, step in steps.items() if step is not None}
    for step in running.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in running}
    gc.collect()
    end = time.monotonic() + seconds
    rounds = 0
    while rounds < least or time.monotonic() < end:
        for name, step in running.items():
            start = time.process_time()
            step()
            times[name].append(1e3 * (time.process_time() - start))
        rounds += 1
        # A slow contestant takes part in the first rounds only.
        for name in [name for name, found in times.items() if sum(found) > 400 * seconds and len(found) >= least]:
            running.pop(name, None)
    return {name: statistics.median(found) for name, found in times.items()}


def on_cpu(quick: bool) -> dict[str, object]:
    rng = np.random.default_rng(0)
    seconds = 3.0 if quick else 20.0
    pictures = images(10_000 if quick else 30_000, rng)
    report: dict[str, dict[str, float]] = {
        key: {} for key in ("step_ratio", "own_nonprivate_ratio", "opacus_ghost_ratio", "opacus_default_ratio")
    }
    for size in (100, 600, 4096):
        found = medians(
            {
                "autograd": autograd_step(pictures, size, "cpu"),
                "private": private_step(pictures, size),
                "own": nonprivate_step(pictures, size),
                "ghost": opacus_step(pictures, size, ghost=True),
                # At 4096 the default mode needs 5 GB and seconds a step; it is not worth waiting for.
                "default": None if size > 600 else opacus_step(pictures, size, ghost=False),
            },
            seconds,
        )
        show(f"VAE 784-200-2-200-784, batch {size}", found)
        report["step_ratio"][str(size)] = found["private"] / found["autograd"]
        report["own_nonprivate_ratio"][str(size)] = found["private"] / found["own"]
        for name in ("ghost", "default"):
            if name in found:
                report[f"opacus_{name}_ratio"][str(size)] = found[name] / found["private"]
    result: dict[str, object] = dict(report)
    found = medians(
        {"one": private_step(pictures, 4096), "ten": private_step(pictures, 4096, clusters=10)}, 1.5 * seconds
    )
    show("ten models and one, batch 4096", found)
    result["k10_ratio"] = found["ten"] / found["one"]
    baskets = calls(20_000 if quick else 50_000, rng)
    found = medians(
        {
            "autograd": autograd_step(baskets, 4096, "cpu"),
            "private": private_step(baskets, 4096),
            "ghost": opacus_step(baskets, 4096, ghost=True),
        },
        seconds,
    )
    show(f"1303 items, {baskets.lengths.mean():.1f} a record, batch 4096", found)
    print(f"    throughput: {4096e3 / found['private']:,.0f} records a second")
    result["cdr_vs_autograd"] = found["autograd"] / found["private"]
    result["cdr_vs_opacus_ghost"] = found["ghost"] / found["private"] if "ghost" in found else None
    machine = RBM(pictures.domain, HIDDEN)
    found = medians(
        {"private": private_step(pictures, 600, model=machine), "own": nonprivate_step(pictures, 600, machine)},
        seconds,
    )
    show("RBM 784-200, batch 600", found)
    result["rbm_ratio"] = found["private"] / found["own"]
    return result


def private_run(records: Records, size: int, **options: object) -> Callable[[int], None]:
    return trainer(records, size, device="cuda", **options).run  # type: ignore[arg-type]


def autograd_run(records: Records, size: int) -> Callable[[int], None]:
    step = autograd_step(records, size, "cuda")

    def run(steps: int) -> None:
        for _ in range(steps):
            step()

    return run


def on_cuda(quick: bool) -> dict[str, object]:
    """Clock time of whole steps: gateway, coins, integer noise on the host included."""
    rng = np.random.default_rng(0)
    rounds = 200 if quick else 1000
    pictures, baskets = images(30_000, rng), calls(100_000 if quick else 400_000, rng)
    result: dict[str, object] = {"device": torch.cuda.get_device_name()}
    machine = RBM(pictures.domain, HIDDEN)
    even: dict[str, object] = {"clusters": 10, "decline": 1.0}
    contestants: dict[str, tuple[Callable[[], Callable[[int], None]], int]] = {
        "autograd_600": (lambda: autograd_run(pictures, 600), 600),
        "private_100": (lambda: private_run(pictures, 100), 100),
        "private_600": (lambda: private_run(pictures, 600), 600),
        "private_4096": (lambda: private_run(pictures, 4096), 4096),
        "k10_4096": (lambda: private_run(pictures, 4096, clusters=10), 4096),
        "k10_even_4096": (lambda: private_run(pictures, 4096, **even), 4096),
        "cdr_4096": (lambda: private_run(baskets, 4096), 4096),
        "cdr_32768": (lambda: private_run(baskets, 32768), 32768),
        "rbm_600": (lambda: private_run(pictures, 600, model=machine), 600),
    }
    for name, (make, size) in contestants.items():
        run = make()
        run(20)
        torch.cuda.synchronize()
        times = []
        for _ in range(5):
            start = time.perf_counter()
            run(rounds // 5)
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start) / (rounds // 5))
        took = statistics.median(times)
        result[f"{name}_ms"] = took
        print(f"{name:22s} {took:8.3f} ms   {size / took * 1e3:12,.0f} records a second")
    return result


def one_epoch(count: int) -> None:
    """Throughput over one epoch of call records on one core, and memory during it (Linux)."""
    records = calls(count, np.random.default_rng(0))
    size = (records.indptr.nbytes + records.indices.nbytes) / 2**20
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    made = trainer(records, 4096, clusters=10)
    made.run(3)
    steps = max(1, round(count / 4096))
    start = time.process_time()
    made.run(steps)
    took = time.process_time() - start
    peak = memory("VmHWM") - before
    print(f"{count:,} records of 1303 items, k = 10, batch 4096: {took:.1f} CPU s, {count / took:,.0f} records/s")
    print(f"    records {size:.0f} MB; training takes {peak:.0f} MB more than the process held before it")


def memory(key: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def show(title: str, found: dict[str, float]) -> None:
    print(title)
    for name, value in found.items():
        print(f"    {name:10s} {value:10.2f} ms   {value / next(iter(found.values())):8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", type=Path, help="write the ratios there")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--epoch", type=int, metavar="N", help="instead: one epoch over N call records")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if arguments.epoch:
        one_epoch(arguments.epoch)
        return
    result = on_cuda(arguments.quick) if arguments.device == "cuda" else on_cpu(arguments.quick)
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
