"""Private SGD (Algorithms 3 and 4) and refinement."""
