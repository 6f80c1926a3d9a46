"""Builds wheel and sdist, installs the wheel in an empty environment, imports it and runs a small demo.

    python tools/check_wheel.py [--out dist] [--download]

The new environment holds the wheel alone. Its dependencies come from the environment that runs this script (a .pth file
points there, behind the wheel), so that torch is not downloaded again; `--download` installs them afresh instead, as
a user would, with the versions of constraints.txt.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; raises if it fails."""
    there = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command], check=True, cwd=cwd, text=True, stdout=subprocess.PIPE, env=there
    ).stdout


def build(out: Path) -> tuple[Path, Path]:
    """A wheel made from the sdist, so that the sdist is known to be complete."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", out.resolve(), cwd=ROOT)
    return max(out.glob("*.whl")), max(out.glob("*.tar.gz"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the wheel and try it in an empty environment.")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--download", action="store_true", help="install dependencies afresh")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    wheel, sdist = build(arguments.out)
    files = zipfile.ZipFile(wheel).namelist()
    strangers = [name for name in files if not name.startswith(("dpgm/", "dpgm-"))]
    if strangers:
        raise SystemExit(f"the wheel holds what it should not: {strangers[:5]}")
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    print(f"{len(files)} files in the wheel")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=arguments.download)
        python = folder / "env" / "bin" / "python"
        packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        start = time.perf_counter()
        if arguments.download:
            run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
        else:
            run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, wheel)
            (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        print(f"installed in {time.perf_counter() - start:.0f} s")
        if arguments.download:
            size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
            held = sorted(path.name.partition("-")[0] for path in packages.glob("*.dist-info"))
            print(f"{size / 1e6:.0f} MB in {len(held)} packages: {', '.join(held)}")
        where = run(python, "-c", "import dpgm; print(dpgm.__version__, dpgm.__file__)", cwd=folder).strip()
        if str(folder) not in where:
            raise SystemExit(f"not the wheel was imported but {where}")
        print(f"import dpgm: {where.split()[0]}")
        run(python, "-m", "dpgm", "demo", "--records", "50", "--quiet", "--out", "demo", cwd=folder)
        if not (folder / "demo" / "report.html").exists():
            raise SystemExit("the demo wrote no report")
        print("dpgm demo: done")


if __name__ == "__main__":
    main()
