"""The gateway: every protocol toward clients, every protocol and dialect toward upstreams.

To read its configuration, and to route by it, needs no package of the extra `gateway`: the command line does
both without them. Whatever serves begins with `admission`, which asks for them.
"""
