"""How fast rue is, beside its peers and as models grow. `python -m benchmarks --help` says how to run it."""
