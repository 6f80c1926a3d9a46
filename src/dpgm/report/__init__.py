"""The fidelity report: one self-contained HTML file for people who do not know the mathematics."""
