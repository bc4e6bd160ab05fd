"""The gateway: every protocol toward clients, every protocol and dialect toward upstreams."""

from dragoman.core.optional import require

require("gateway")
