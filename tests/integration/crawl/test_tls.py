"""TLS is verified for the name, although the connection goes to an address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from telegram_assistant.crawl.fetcher import Fetcher
from telegram_assistant.errors import Reject, Retry, Skip

pytestmark = pytest.mark.integration

Internet = Any  # of conftest.py, which cannot be imported
Contexts = Callable[..., tuple[ssl.SSLContext, ssl.SSLContext]]


@pytest.fixture
def contexts(tmp_path: Path) -> Contexts:
    """A server's context with a certificate for a name, and a client's that trusts it."""

    def make(name: str, *, days: int = 30) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = tmp_path / "server.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = certificate.public_bytes(serialization.Encoding.PEM)
        pem.write_bytes(secret + public)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(pem)
        return server, ssl.create_default_context(cadata=public.decode())

    return make


async def test_the_name_is_greeted_and_verified_at_its_checked_address(internet: Internet, contexts: Contexts) -> None:
    server, client = contexts("safe.test")
    site = await internet.site("safe.test", server, page=internet.response("<p>x</p>"))
    fetched = await internet.fetcher(tls=client).get("https://safe.test/page")
    assert fetched.body == b"<p>x</p>"
    assert site.names == ["safe.test"]
    assert internet.wire.dialled == [("93.184.216.1", 443)]
    assert site.asked[0].headers["host"] == "safe.test"


async def test_a_certificate_for_another_name_is_refused(internet: Internet, contexts: Contexts) -> None:
    server, client = contexts("other.test")
    site = await internet.site("safe.test", server, page=internet.response("<p>x</p>"))
    with pytest.raises(Skip, match=r"certificate of safe\.test is not valid"):
        await internet.fetcher(tls=client).get("https://safe.test/page")
    assert site.asked == []


async def test_a_certificate_that_ran_out_is_refused(internet: Internet, contexts: Contexts) -> None:
    server, client = contexts("safe.test", days=-1)
    await internet.site("safe.test", server, page=internet.response("<p>x</p>"))
    with pytest.raises(Skip, match="expired"):
        await internet.fetcher(tls=client).get("https://safe.test/page")


async def test_a_certificate_of_nobody_is_refused_by_default(internet: Internet, contexts: Contexts) -> None:
    server, _ = contexts("safe.test")
    site = await internet.site("safe.test", server, page=internet.response("<p>x</p>"))
    fetcher = Fetcher(agent="x", resolve=internet.resolve, network=internet.wire)
    with pytest.raises(Skip, match="certificate"):
        await fetcher.get("https://safe.test/page")
    assert site.asked == []


async def test_a_server_without_tls_is_no_page(internet: Internet) -> None:
    site = await internet.site("plain.test")
    site.greeting = internet.response("You speak TLS to a plain server", status=400)
    with pytest.raises(Retry, match=r"plain\.test"):
        await internet.fetcher().get("https://plain.test/page")


async def test_a_silent_handshake_is_left(internet: Internet) -> None:
    """It takes the connection and never answers the greeting."""
    site = await internet.site("mute.test")
    with pytest.raises(Retry, match=r"mute\.test"):
        await internet.fetcher(connect_seconds=0.2).get("https://mute.test/page")
    with pytest.raises(Retry, match="did not deliver"):
        await internet.fetcher(total_seconds=0.2).get("https://mute.test/page")
    assert site.asked == []


async def test_a_secure_redirect_into_a_private_network_is_rejected(internet: Internet, contexts: Contexts) -> None:
    server, client = contexts("safe.test")
    headers = [("Location", "https://[::ffff:169.254.169.254]/latest/meta-data/")]
    await internet.site("safe.test", server, page=internet.response(status=302, headers=headers))
    with pytest.raises(Reject, match="link-local"):
        await internet.fetcher(tls=client).get("https://safe.test/page")


async def test_a_site_that_wants_our_certificate_is_left_alone(internet: Internet, contexts: Contexts) -> None:
    """With TLS 1.3 it says so after the handshake, by an OSError: no engine of ours is away."""
    server, client = contexts("safe.test")
    server.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(client.get_ca_certs(binary_form=True)[0]))
    server.verify_mode = ssl.CERT_REQUIRED

    def refuse(door: socket.socket) -> None:  # asyncio's server ends the connection without a word
        connection, _ = door.accept()
        with connection:
            with pytest.raises(ssl.SSLError, match="did not return a certificate"):
                server.wrap_socket(connection.dup(), server_side=True)
            while connection.recv(4096):  # else the system takes back what was said
                pass

    with socket.create_server(("127.0.0.1", 0)) as door:
        internet.wire.servers["93.184.216.99"] = SimpleNamespace(port=door.getsockname()[1])
        internet.names["safe.test"] = [["93.184.216.99"]]
        refusing = asyncio.create_task(asyncio.to_thread(refuse, door))
        with pytest.raises(Retry, match=r"safe\.test broke the connection: .*certificate required"):
            await internet.fetcher(tls=client).get("https://safe.test/page")
        await refusing
