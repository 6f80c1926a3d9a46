"""A planted bug: text of the real code, what it is changed to, and the tests that must notice."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        number: of the list of faults.
        fault: what goes wrong, in a few words.
        edits: pairs (text as it stands, text with the fault); the file is found by its content.
        killers: pytest arguments of the tests that must fail.
    """

    number: int
    fault: str
    edits: tuple[tuple[str, str], ...]
    killers: tuple[str, ...]


class NotFoundError(Exception):
    """The text to be changed is not in the code any more, or is there twice: the mutant must be written anew."""


def edited(mutant: Mutant, files: dict[Path, str]) -> dict[Path, str]:
    """The files that a fault changes, with the fault; `files` are those of `src` as they stand.

    Raises:
        NotFoundError: a text is not found exactly once, or is not changed.
    """
    changed: dict[Path, str] = {}
    for old, new in mutant.edits:
        if old == new:
            raise NotFoundError(f"mutant {mutant.number} ({mutant.fault}) changes nothing: {old.strip()!r}")
        now = files | changed
        homes = [path for path, text in now.items() if old in text]
        if len(homes) != 1 or now[homes[0]].count(old) != 1:
            places = ", ".join(str(path) for path in homes) or "nowhere"
            raise NotFoundError(
                f"mutant {mutant.number} ({mutant.fault}): its text stands {places}: {old.strip()!r}"
            )
        changed[homes[0]] = now[homes[0]].replace(old, new)
    return changed


def apply(mutant: Mutant, source: Path) -> dict[Path, str]:
    """Put a fault into a copy of `src`; returns the changed files as they were."""
    files = read_all(source)
    changed = edited(mutant, files)
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    return {path: files[path] for path in changed}


def read_all(source: Path) -> dict[Path, str]:
    """Every module of a source tree."""
    return {path: path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}
