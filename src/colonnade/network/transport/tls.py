"""A TLS 1.3 connection between two parties: its context, the open port, the socket's settings, envelopes on it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from colonnade.errors import InvalidInput
from colonnade.network.certs import Credentials, RevocationList, Tls, distrust
from colonnade.network.transport.envelope import ENVELOPE, Malformed, Reason

_LENGTH = struct.Struct("<I")


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """A neighbour that vanished without closing is noticed: by probes, or by bytes that nobody confirms."""
    plain = writer.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):  # not on every system
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def tls_context(tls: Tls, credentials: Credentials, side: ssl._SSLMethod) -> ssl.SSLContext:
    """TLS 1.3 with certificates on both sides; whom one is about is checked by our own rule, after the handshake."""
    if side == ssl.PROTOCOL_TLS_SERVER and not _serves(credentials.certificate):
        raise InvalidInput(
            f"{tls.certificate} is not good for taking connections. Issue it again: `colonnade certs issue FOLDER NAME "
            "--host HOST --replace`."
        )
    made = ssl.SSLContext(side)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    try:
        made.load_verify_locations(cadata=credentials.authority.decode("ascii"))
        made.load_cert_chain(tls.certificate, tls.key)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise InvalidInput(
            f"{tls.certificate}, {tls.key} and {tls.authority} do not work together as certificate, key and authority."
        ) from error
    return made


def _serves(certificate: x509.Certificate) -> bool:
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in uses


def check_peer(certificate: x509.Certificate, name: str, pinned: bytes | None, revoked: RevocationList | None) -> None:
    """Refuse a certificate that does not prove that its holder is `name`."""
    if why := distrust(certificate, name, pinned, revoked):
        # While the list of the revoked cannot be read nobody is told that it is on it.
        raise Malformed(Reason.BUSY if why == "unreadable" else Reason[why.upper()])


def address_taken(address: str) -> InvalidInput:
    return InvalidInput(
        f"cannot listen at {address!r}: the port is in use, or the address is not one of this machine. Stop the "
        "program that holds it, or listen elsewhere."
    )


def door(listen: str) -> socket.socket:
    host, port = split_address(listen)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise address_taken(listen) from error
    made.setblocking(False)
    return made


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise InvalidInput(f"{address!r} is not an address: write host:port, such as party.example.org:7444.")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def read_envelope(reader: asyncio.StreamReader) -> bytes:
    """The next envelope, behind its length; one over the limit is refused before anything of it is read."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > ENVELOPE:
        raise Malformed(Reason.SIZE)
    return await reader.readexactly(length)


async def write_envelopes(writer: asyncio.StreamWriter, *parts: bytes) -> None:
    for part in parts:
        writer.write(_LENGTH.pack(len(part)))
        writer.write(part)
    await writer.drain()
