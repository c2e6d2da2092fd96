"""Settings of hypothesis: no deadlines, as machines are noisy; every failure prints how to repeat it.

Elsewhere each run tries new examples; in CI they are always the same, so that a change is judged by itself.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "rue",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("rue")


def pytest_configure(config: pytest.Config) -> None:
    """Interpreted kernels: numpy warns where they count on infinities and on hashes that overflow. A NaN is an error."""
    if "NUMBA_DISABLE_JIT" in os.environ:
        for harmless in ("overflow encountered", "divide by zero encountered"):
            config.addinivalue_line("filterwarnings", f"ignore:{harmless}:RuntimeWarning")
