"""The interface between a fit and the generator families.

`synthesis` knows families only through `Strategy`; a family knows nothing of plan files, ledgers or releases.
"""
