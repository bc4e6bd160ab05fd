"""The inspector: what was sent on both wires, what was lost at which field, and what fills the window.

`analysis`, `views` and `plan` are pure functions over recordings; `server` serves them and the page of
`page/`; `export` writes one exchange as a file that opens without a server.
"""
