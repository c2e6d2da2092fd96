"""Compile kernels for the cache on disk: `python -m rue._kernels chain.settle chain.prove`."""

import importlib
import sys

from rue._kernels import make_ready

if __name__ == "__main__":
    for file in {name.partition(".")[0] for name in sys.argv[1:]}:
        importlib.import_module(f"rue._kernels.{file}")
    make_ready(sys.argv[1:], lambda name: None)
