"""What must always stand beside a synthesizer: answering 0, independent noisy marginals, MWEM.

`independent` and `mwem` are families like the others (`dpgm fit --model mwem`). `estimators` fits them without a plan
or a release, for comparisons.
"""
