"""The exceptions that dpgm raises on purpose, each with the `kind` that the command line prints.

Messages are one plain sentence: what is wrong, where, the rule, what to do. They never contain a value from the data.
"""


class DpgmError(Exception):
    """Base of all errors raised on purpose; `kind` is printed in brackets on the command line."""

    kind = "E-INTERNAL"


class UsageError(DpgmError, ValueError):
    """An argument, configuration, plan or domain breaks a rule."""

    kind = "E-USAGE"


class NotFittedError(UsageError, AttributeError):
    """A fitted attribute was used before `fit`."""


class InputError(DpgmError, ValueError):
    """A data file cannot be read with these options."""

    kind = "E-INPUT"


class BudgetError(DpgmError):
    """The privacy budget does not allow the request."""

    kind = "E-BUDGET"


class DiskError(DpgmError, OSError):
    """An output cannot be written."""

    kind = "E-DISK"


class ArtefactError(DpgmError, ValueError):
    """A release, plan, checkpoint or ledger is damaged or was made by something else."""

    kind = "E-ARTEFACT"


class ResourceError(DpgmError, MemoryError):
    """The machine is too small for the request."""

    kind = "E-RESOURCE"


class CheckFailed(DpgmError):
    """A check that the user requested failed; the command exits with 1."""

    kind = "E-CHECK"


class PrivacyWarning(UserWarning):
    """The guarantee is weaker than a careful reader would assume."""
