"""Privacy audit: attack the real pipeline, to see whether a release reveals more about one record than it claims.

`audit` runs hundreds of fits of tiny data, with and without one record (the canary), through `Synthesizer.fit`, for
every family of generators, discovered domains and several rows per person. An adversary who knows everything except
whether the canary was in the data guesses that from the released values: of the whole fit, and of every named mechanism
alone. How often the guess is right gives a lower bound on epsilon, which is compared with the certificate's upper
bound:

- a lower bound above the claim is a privacy bug;
- a lower bound far below the claim means that the audit itself is weak.

`audit_one_run` does the same with one fit of a public file and many canaries. Neither is a proof: faults that do not
expose these canaries stay unnoticed. The proof is described in docs/guarantee.md; the audit is its smoke alarm.
"""

from dpgm.audit.findings import AuditFinding, audit
from dpgm.audit.gates import Gate
from dpgm.audit.one_run import OneRunFinding, audit_one_run

__all__ = ["AuditFinding", "Gate", "OneRunFinding", "audit", "audit_one_run"]
