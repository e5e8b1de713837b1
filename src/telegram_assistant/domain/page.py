"""A page of the web, as it was read and as the next visit needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the last visit of a page left, for a conditional request."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as text; never its HTML."""

    url: str  # canonical: what the page says it is called if that is the same site, else where the redirects ended
    title: str = ""
    text: str = ""
    description: str = ""
    language: str = ""
    site: str = ""
    published: str = ""
    content_hash: str = ""  # SHA-256 of the text
    etag: str | None = None
    last_modified: str | None = None
    unchanged: bool = False  # the server said 304: nothing else is filled in
