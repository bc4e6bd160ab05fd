"""Settings for all tests.

Laws run the same examples every time; `HYPOTHESIS_PROFILE=deep` looks for new ones.
"""

import os

from hypothesis import HealthCheck, settings

SLOW_MACHINE = (HealthCheck.too_slow,)

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, suppress_health_check=SLOW_MACHINE
)
settings.register_profile("deep", deadline=None, max_examples=2000, suppress_health_check=SLOW_MACHINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
