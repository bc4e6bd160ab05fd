"""The gateway: every protocol toward clients, every protocol and dialect toward upstreams."""
