"""The path of an upstream."""

from __future__ import annotations

from dragoman.core.codec import Http, same_path

HTTP = Http(path=same_path("/chat/completions"), signs=False)
