"""Settings of hypothesis: no deadlines, as machines are noisy; every failure prints how to repeat it."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "rue", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
settings.load_profile("rue")
