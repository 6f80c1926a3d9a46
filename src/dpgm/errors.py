"""Every error a user can meet, and the `kind` it is printed with on the command line.

Messages are one plain sentence: what is wrong, where, the rule, what to do. Never a cell value.
"""


class DpgmError(Exception):
    """Base of all errors raised on purpose; `kind` is printed in brackets on the command line."""

    kind = "E-INTERNAL"


class UsageError(DpgmError, ValueError):
    """An argument, configuration, plan or domain breaks a rule."""

    kind = "E-USAGE"


class NotFittedError(UsageError, AttributeError):
    """A fitted attribute was asked for before `fit`."""


class InputError(DpgmError, ValueError):
    """A data file cannot be read as asked."""

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
    """A check that was asked for did not hold; the command exits with 1."""

    kind = "E-CHECK"


class PrivacyWarning(UserWarning):
    """The guarantee is weaker than a careful reader would assume."""
