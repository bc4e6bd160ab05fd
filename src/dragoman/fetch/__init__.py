"""One guarded, bounded fetch for every address that a model, a client or a page can name."""

from dragoman.fetch.download import WebPage, download
from dragoman.fetch.guard import Address, AddressGuard, FetchError, is_public

__all__ = ["Address", "AddressGuard", "FetchError", "WebPage", "download", "is_public"]
