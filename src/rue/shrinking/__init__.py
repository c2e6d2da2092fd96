"""Smaller controllers: nodes are removed or added, and what is left is improved; `simplification.py` is the way in."""
