"""What the user is told when a fit stops early: whether budget is gone, and how to go on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpgm.cli.terminal import announce
from dpgm.errors import ArtefactError, BudgetError, UsageError

# Errors of a fit that say by themselves what was spent and what to do.
SAY_IT_THEMSELVES = (UsageError, ArtefactError, BudgetError)


def default_checkpoint(out: Path) -> Path:
    """Where a fit keeps its noisy answers until its release is written, if no folder was named."""
    return out.with_name(f"{out.name}.checkpoint")


def clear_leftovers(out: Path) -> None:
    """Remove what a process left that was killed while it wrote this release or cleaned up after it."""
    from dpgm.data.atomic import remove_leftovers
    from dpgm.synthesis.checkpoint import MODEL_FILE, remove_checkpoint

    folder = default_checkpoint(out)
    remove_leftovers(out)
    remove_leftovers(folder)
    with suppress(OSError):
        if (out / "model.safetensors").read_bytes() == (folder / MODEL_FILE).read_bytes():
            remove_checkpoint(folder)  # its release is written


def warn_of_seed(seed: int | None) -> None:
    """Say on the screen, whatever was asked to be quiet, that a seeded fit protects nobody."""
    if seed is not None:
        announce("NOT PRIVATE: with --seed the noise can be computed again and taken off; for tests only.")


@contextmanager
def told_what_is_spent(folder: Path, *, unless: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Add to whatever stops the block what was spent and how to go on; not to errors of the kinds in `unless`."""
    try:
        yield
    except unless:
        raise
    except BaseException:
        announce(_what_now(folder))
        raise


def _what_now(folder: Path) -> str:
    from dpgm.synthesis.checkpoint import Checkpoint

    if not folder.exists():
        return "stopped before anything was measured: no budget is spent, and nothing was written"
    spent = ["training" if name == "step" else name for name in Checkpoint.charges_in(folder)]
    gone = (
        f"the budget of {', '.join(spent)} is spent" if spent else "nothing was measured, but the plan is reserved"
    )
    return (
        f"stopped: {gone}. Noisy answers are kept in {folder}: resume with the same command and --resume, which costs "
        "nothing more"
    )
