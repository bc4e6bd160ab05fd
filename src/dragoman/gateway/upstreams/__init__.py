"""Where a request goes and how it is sent: routing, attempts, circuit breaker."""
