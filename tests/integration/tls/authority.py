"""An authority of a test, the certificates that it signs, and a door with TLS in front of a server without."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # how PostgreSQL's clients ask for TLS
LOCALHOST: tuple[x509.GeneralName, ...] = (x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1")))


@dataclass(frozen=True)
class Authority:
    """Signs; its own certificate is what TLS_CA_FILE names."""

    folder: Path
    name: str

    @property
    def ca_file(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def make(self) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        mine = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        built = _certificate(mine, mine, key.public_key()).add_extension(constraints, critical=True)
        self.ca_file.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return key

    def sign(self, key: ec.EllipticCurvePrivateKey, names: tuple[x509.GeneralName, ...]) -> tuple[Path, Path]:
        """A server's certificate and its key, as files."""
        own = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self.ca_file.read_bytes()).subject
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
        built = _certificate(subject, issuer, own.public_key())
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate, secret = self.folder / f"{self.name}-server.crt", self.folder / f"{self.name}-server.key"
        certificate.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        secret.touch(mode=0o600)
        secret.write_bytes(
            own.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, secret


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )


@dataclass(frozen=True)
class Trust:
    """A server's certificate, the authority that signed it, and one that did not."""

    certificate: Path
    key: Path
    ca_file: Path
    stranger: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_trust(folder: Path, names: tuple[x509.GeneralName, ...] = LOCALHOST) -> Trust:
    ours, other = Authority(folder, "ours"), Authority(folder, "stranger")
    other.make()
    certificate, key = ours.sign(ours.make(), names)
    return Trust(certificate, key, ours.ca_file, other.ca_file)


@asynccontextmanager
async def tls_door(port: int, trust: Trust, *, postgres: bool = False) -> AsyncIterator[int]:
    """TLS outside, plain inside, on loopback. PostgreSQL's clients ask before they begin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if postgres:
                if await reader.readexactly(8) != SSL_REQUEST:
                    return
                writer.write(b"S")
                await writer.start_tls(trust.server())
            inside, out = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.wait(
                    {asyncio.ensure_future(_pour(reader, out)), asyncio.ensure_future(_pour(inside, writer))}
                )
            finally:
                out.close()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever distrusts us hangs up
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=None if postgres else trust.server())
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
