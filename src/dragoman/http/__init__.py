"""HTTP/1.1 on httptools and uvloop: `server` answers clients, `client` calls upstreams."""

from dragoman.core.optional import require

require("client")
