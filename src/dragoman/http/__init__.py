"""HTTP/1.1 on httptools and uvloop: `server` answers clients, `client` calls upstreams."""
