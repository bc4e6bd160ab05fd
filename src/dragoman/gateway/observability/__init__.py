"""Access log, metrics, traces and redaction."""
