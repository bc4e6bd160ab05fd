"""`python patient.py serve …`: the program, where a store that is late on a busy machine is waited for."""

from __future__ import annotations

import importlib

from dragoman.cli import main

TIME_LIMITS = (
    "dragoman.gateway.conversations.upstream_sessions._TIMEOUT",
    "dragoman.gateway.conversations.cut_ids._TIMEOUT",
    "dragoman.gateway.conversations.store.postgres._TIMEOUT",
    "dragoman.gateway.conversations.store.sqlite._BUSY_TIMEOUT",
    "dragoman.gateway.admission.postgres_counters._TIMEOUT",
)

if __name__ == "__main__":
    for place in TIME_LIMITS:
        module, _, name = place.rpartition(".")
        setattr(importlib.import_module(module), name, 120.0)
    main()
