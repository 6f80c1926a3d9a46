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


def apply(mutant: Mutant, source: Path) -> dict[Path, str]:
    """Put a fault into a copy of `src`; returns the files as they were.

    Raises:
        NotFoundError: a text is not found exactly once.
    """
    before: dict[Path, str] = {}
    files = {path: path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}
    for old, new in mutant.edits:
        homes = [path for path, text in files.items() if old in text]
        if len(homes) != 1 or files[homes[0]].count(old) != 1:
            places = ", ".join(str(path.relative_to(source)) for path in homes) or "nowhere"
            raise NotFoundError(
                f"mutant {mutant.number} ({mutant.fault}): its text stands {places}: {old.strip()!r}"
            )
        path = homes[0]
        before.setdefault(path, files[path])
        files[path] = files[path].replace(old, new)
    for path in before:
        path.write_text(files[path], "utf-8")
    return before
