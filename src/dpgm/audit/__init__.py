"""Attack the real pipeline: does a release betray one record more than its certificate allows?

`audit` fits tiny data again and again, with and without one record (the canary), by the very code that makes releases,
and lets an adversary who knows everything but the canary's membership guess it from the released values. How often the
guess is right gives a lower bound on epsilon, to be compared with the certified upper bound:

- a lower bound above the claim is a privacy bug;
- one far below it means that the audit itself is weak.

`audit_one_run` does so with one fit of a public file and many canaries at once. Neither is a proof: they pass on faults
that keep these canaries safe. The argument is in docs/guarantee.md; this is its smoke alarm.
"""

from dpgm.audit.findings import Finding, Gate, audit
from dpgm.audit.one_run import OneRunFinding, audit_one_run

__all__ = ["Finding", "Gate", "OneRunFinding", "audit", "audit_one_run"]
