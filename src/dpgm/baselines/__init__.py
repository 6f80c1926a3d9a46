"""Baselines that every synthesizer should be compared with: independent noisy marginals, MWEM, and answering 0.

`independent` and `mwem` are families like the others (`dpgm fit --model mwem`). `estimators` fits them without a plan
or a release, for comparisons.
"""
