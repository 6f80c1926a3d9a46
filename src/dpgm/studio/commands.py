"""The commands of `dpgm` behind a project: what runs, what "show as command" shows, and what a reader could type."""

import re
import shlex
from collections.abc import Mapping, Sequence

from dpgm.data.read.declared import declared
from dpgm.studio.workspace import Answers, Project, Workspace

# The reading options that the studio asks for; the others follow from its questions, or need the command line.
READING_OPTIONS = (
    "separator",
    "decimal",
    "thousands",
    "strip_from_numbers",
    "missing",
    "header",
    "skip_lines",
    "comment",
    "item_separator",
    "encoding",
    "member",
)
HELP: Mapping[str, str] = {one.name: one.option.help for one in declared() if one.name in READING_OPTIONS}


_FLAGS = {f"--{name.replace('_', '-')}": name.replace("_", " ").capitalize() for name in READING_OPTIONS}
_FLAGS |= {
    "--no-header": "Header",
    "--person": "Column that says whose row it is",
    "--item": "Column that names the thing",
    "--rows-per-person": "Use at most so many rows of each person",
}
_FLAG = re.compile(r"(--[a-z-]+)")
_PARTS = {"%d": "day", "%m": "month", "%Y": "year", "%H": "hour", "%M": "minute", "%S": "second"}  # of dates
_KIND = re.compile(r"--kind '?([^'=]+)=([a-z]+)'?( (?=--))?")


def in_words_of_the_form(message: str) -> str:
    """A message of the command line, whose options become the boxes of the page of data.

    >>> in_words_of_the_form("leave out what is above them with --skip-lines 1.")
    'leave out what is above them with “Skip lines” 1.'
    """
    message = _KIND.sub(
        lambda one: f"the kind {one[2]} for {one[1]} on the page of fields{' and ' if one[3] else ''}", message
    )
    message = re.sub("%[dmYHMS]", lambda part: _PARTS[part[0]], message)
    return _FLAG.sub(lambda flag: f"“{_FLAGS[flag[1]]}”" if flag[1] in _FLAGS else flag[1], message)


class Commands:
    """The commands of one project, with paths below the served folder."""

    def __init__(self, workspace: Workspace, project: Project) -> None:
        self._root = workspace.root
        self._ledgers = workspace
        self.project = project

    def path(self, name: str) -> str:
        """A file of the project, as commands name it."""
        return str(self.project.path(name).relative_to(self._root))

    def inspect(self) -> list[str]:
        """Look inside the data."""
        stated = [f"--kind={name}={kind}" for name, kind in self._answers.kinds.items()]
        draft = ["--draft-domain", self.path("draft.yaml"), "--force", "--json"]
        return ["inspect", self.data, *self.reading(), *stated, *draft]

    def plan(self, epsilon: float) -> list[str]:
        """Plan a fit."""
        return ["plan", "--epsilon", f"{epsilon:g}", *self._size(), "--out", self.path("plan.json"), "--force"]

    def forecast(self, epsilon: float, group: int | None) -> list[str]:
        """Say how far off a fit will be; or, for a group that must be visible, find the epsilon."""
        asked = ["--epsilon", f"{epsilon:g}"] if group is None else ["--visible", str(group)]
        return ["plan", *asked, *self._size(), "--forecast", "--json"]

    def _size(self) -> list[str]:
        most = self._answers.rows_per_person
        rows = ["--rows-per-person", str(most)] if most and self._answers.rows == "rows" else []
        return ["--records", str(self._answers.records or 0), "--domain", self.domain, *rows]

    def fit(self, *, resume: bool) -> list[str]:
        """Fit as planned."""
        answers = self._answers
        words = ["fit", self.data, *self.reading()]
        words += ["--assume-public-items"] if answers.items == "file" else ["--domain", self.domain]
        words += ["--plan", self.path("plan.json"), "--out", self.path("release")]
        words += ["--checkpoint", self.path("checkpoint"), "--events", self.path("fit.events")]
        if not answers.made_up:
            words += ["--ledger", str(self._ledgers.ledger(answers.ledger).relative_to(self._root))]
        for name in ("title", "owner", "population", "date"):
            words += [f"--{name}={getattr(answers, name)}"] if getattr(answers, name) else []
        words += ["--after-looking"] if answers.looked else []
        return [*words, "--stop-with-stdin", *(["--resume"] if resume else [])]

    def evaluate(self) -> list[str]:
        """Compare the release with the data."""
        words = ["evaluate", self.data, self.path("synthetic.csv"), *self.reading()]
        words += ["--release", self.path("release"), "--out", self.path("report.html")]
        return [*words, "--json", self.path("evaluation.json"), "--force", "--quiet"]

    def sample(self, records: int) -> list[str]:
        """Draw synthetic records."""
        return ["sample", self.path("release"), "--records", str(records), "--out", self.path("synthetic.csv")]

    def rehearse(self, epsilon: float) -> list[str]:
        """The whole way on simulated people."""
        most = self._answers.rows_per_person or 1  # several rows of a person need so many times the noise
        size = ["--records", str(self._answers.records or 0), "--domain", self.domain]
        return ["rehearse", "--epsilon", f"{epsilon / most:g}", *size, "--out", self.path("rehearsal"), "--force"]

    def reading(self) -> list[str]:
        """The options that say how the file is written and who its people are."""
        answers, words = self._answers, []
        for name, text in answers.reading.items():
            flag = f"--{name.replace('_', '-')}"
            if name == "header":
                words.append("--header" if text == "yes" else "--no-header")
            elif name in ("missing", "strip_from_numbers"):
                words += [f"{flag}={one}" for one in text.split(" ") if one]
            else:
                words.append(f"{flag}={text}")
        if answers.person and answers.several != "unknown":
            words.append(f"--person={answers.person}")
        if answers.several == "yes" and answers.rows == "items" and answers.item:
            words.append(f"--item={answers.item}")
        if answers.several == "yes" and answers.rows == "rows" and answers.rows_per_person:
            words += ["--rows-per-person", str(answers.rows_per_person)]
        return words

    @property
    def domain(self) -> str:
        """The domain of the fit: as stated, or the draft where the items of the file are declared public."""
        return self.path("draft.yaml" if self._answers.items == "file" else "domain.yaml")

    @property
    def data(self) -> str:
        """The data file; a name that begins with a dash would be read as an option."""
        file = self._answers.file
        return f"./{file}" if file.startswith("-") else file

    @property
    def _answers(self) -> Answers:
        return self.project.answers


def line(*commands: Sequence[str]) -> str:
    """Commands as lines to paste into a terminal in the served folder."""
    return "\n".join(shlex.join(["dpgm", *words]) for words in commands)
