"""Access log, metrics, traces, and the redaction of a configuration's secrets."""
