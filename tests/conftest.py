"""Settings of hypothesis: no deadlines, as machines are noisy; every failure prints how to repeat it.

Elsewhere each run tries new examples; in CI they are always the same, so that a change is judged by itself.
"""

import os

import pytest
from browsing import browser, view
from hypothesis import HealthCheck, settings

__all__ = ["browser", "view"]  # for all tests of pages

settings.register_profile(
    "rue",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("rue")


def pytest_configure(config: pytest.Config) -> None:
    """Without compilation numpy warns of infinities and of hashes that overflow, which are meant. A NaN is an error."""
    if "NUMBA_DISABLE_JIT" in os.environ:
        for harmless in ("overflow encountered", "divide by zero encountered"):
            config.addinivalue_line("filterwarnings", f"ignore:{harmless}:RuntimeWarning")
