"""One release of rows that stay in several places: processes of this machine, or executors of Spark.

    python examples/several_places.py north.csv south.csv west.csv --domain domain.yaml --out release [--spark]

Every place runs `measure` on its own file and sends back sealed bytes; only this process holds the key that opens them.
In a cluster the files would be paths that the executors see, and nothing else would change.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import dpgm
from dpgm.privacy.keys import create_keys, read_sealing_key, read_unsealing_key

Job = tuple[str, int, int]  # a file, the number of its part, the number of parts


def measure(job: Job, request: str, public_key: Path) -> bytes:
    """In the place where a file is: the sealed sums of its rows."""
    file, number, of = job
    asked = dpgm.PartRequest.from_json(request)
    records, source = dpgm.read_source(file, domain=asked.domain)
    return dpgm.measure_part(records, source, asked, number, of).sealed(read_sealing_key(public_key))


def on_spark(work: Callable[[Job], bytes], jobs: Sequence[Job]) -> list[bytes]:
    """Run the jobs by Spark's executors."""
    from pyspark.sql import SparkSession

    context = SparkSession.builder.master("local[2]").appName("dpgm").getOrCreate().sparkContext
    return context.parallelize(jobs, len(jobs)).map(work).collect()


def in_processes(work: Callable[[Job], bytes], jobs: Sequence[Job]) -> list[bytes]:
    """Run the jobs by processes of this machine."""
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(work, jobs))


def main(options: Any) -> None:
    """Plan, measure round after round, and write the release."""
    domain = dpgm.load_domain(options.domain)
    jobs = [(file, number, len(options.files)) for number, file in enumerate(options.files, 1)]
    plan = dpgm.make_plan(dpgm.Config(options.epsilon), options.records, domain)
    run = on_spark if options.spark else in_processes
    with tempfile.TemporaryDirectory() as folder:
        private, public = create_keys(Path(folder) / "curator", "seal")
        key = read_unsealing_key(private)

        def collect(request: dpgm.PartRequest, mechanism: str) -> list[dpgm.MeasuredPart]:
            print(f"round {request.round}: {mechanism}")
            sealed = run(partial(measure, request=request.to_json(), public_key=public), jobs)
            return [dpgm.MeasuredPart.unsealed(content, key) for content in sealed]

        release = dpgm.fit_parts(plan, domain, collect, checkpoint=Path(folder) / "checkpoint")
    release.save(options.out)
    print(f"epsilon {release.certificate.epsilon:.3f}, {release.certificate.records} records in {len(jobs)} places")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--domain", required=True)
    parser.add_argument(
        "--records", type=int, required=True, help="public number of records of all places together"
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--out", required=True)
    parser.add_argument("--spark", action="store_true")
    main(parser.parse_args())
