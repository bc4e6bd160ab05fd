"""Authentication, rate and concurrency limits of keys, and the queues of the gateway and its providers."""

# ruff: noqa: E402 - a gateway imports this first, so here a missing package is reported with its extra
from dragoman.core.optional import require

require("gateway")

from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.control import Admission, AdmissionControl, ProviderConcurrency
from dragoman.gateway.admission.load_shedding import LoadShed

__all__ = ["Admission", "AdmissionControl", "Caller", "LoadShed", "ProviderConcurrency"]
