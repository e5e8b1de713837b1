"""Public previews, wired: the crawler's guarded requests under the site's own manners."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

from httpcore import default_ssl_context

from telegram_assistant import __version__
from telegram_assistant.config import Settings
from telegram_assistant.crawl.fetcher import ANY_KIND, Fetcher, Limits, retry_after, user_agent
from telegram_assistant.crawl.network import ask_system, leave_to_proxy, network_through
from telegram_assistant.domain.urls import Allowance, is_loopback
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.source.preview_site import Answer, PreviewSite, Unreachable

LARGEST_FILE = 45 * 2**20  # pages show larger ones only as a stub


class Web:
    """Asks as the crawler does: no private addresses, no cookies, limits on time and size."""

    def __init__(self, settings: Settings, allow: Allowance, *, clock: Callable[[], datetime]) -> None:
        agent = user_agent(__version__, settings.crawl_contact)
        large = Limits(total_seconds=120, wire_bytes=LARGEST_FILE, unpacked_bytes=LARGEST_FILE)
        small = Limits(total_seconds=settings.crawl_timeout_sec)
        proxy = settings.telegram_web_proxy
        # These names are the settings' and Telegram's own, no stranger's: a proxy may look them up, where we cannot.
        resolve = ask_system if proxy is None else leave_to_proxy
        network, tls = network_through(proxy), default_ssl_context()  # it reads all certificates, so one for both
        self._pages = Fetcher(agent=agent, limits=small, allow=allow, tls=tls, network=network, resolve=resolve)
        self._files = Fetcher(agent=agent, limits=large, allow=allow, tls=tls, network=network, resolve=resolve)
        self._clock = clock

    async def __call__(self, url: str, *, file: bool = False) -> Answer:
        try:
            fetched = await (self._files if file else self._pages).get(url, kinds=ANY_KIND)
        except Retry as exc:
            raise Unreachable(str(exc)) from exc
        except (Skip, Reject) as exc:
            if file:
                return Answer(404)  # an address that is never read
            raise Unreachable(str(exc)) from exc
        return Answer(fetched.status, fetched.body, retry_after(fetched.headers, self._clock()))


def open_previews(
    settings: Settings, *, clock: Callable[[], datetime], allow: Allowance = frozenset()
) -> PreviewSite | None:
    """None where they are switched off. A host on loopback that the settings name is meant so."""
    hosts = [host.strip().rstrip("/") for host in settings.preview_hosts.split(",") if host.strip()]
    if not hosts:
        return None
    named = [urlsplit(host) for host in hosts if "://" in host]
    own = {(one.hostname, one.port or 80) for one in named if one.hostname and is_loopback(one.hostname)}
    return PreviewSite(Web(settings, frozenset({*allow, *own}), clock=clock), hosts, pause=settings.preview_pause_sec)
