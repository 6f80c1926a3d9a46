"""The seam between a fit and the families of generators: what a family is told, and what it must answer.

`synthesis` knows families only through `Strategy`; a family knows nothing of plans on disk, ledgers or releases.
"""
