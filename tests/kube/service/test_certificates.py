"""The certificate of the pages is renewed by replacing its files; until both are complete the old one is used."""

from __future__ import annotations

import asyncio
import ssl

from cryptography import x509

from hostler.kube.service.server import ServedCertificate
from tests.kube.api.certificates import Authority
from tests.kube.service.service_in_process import scheduling, server_with
from tests.wait import GIVE_UP_S


def write(folder, pair):
    """Put a pair into place as cert-manager's volumes do: each file whole."""
    for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").replace(folder / name)


async def shown_by(port):
    """Return the name in the certificate of the server."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    found = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    await writer.wait_closed()
    return found.subject.rfc4514_string().removeprefix("CN=")


def test_pages_show_a_certificate_that_was_replaced(tmp_path):
    authority = Authority()
    write(tmp_path, authority.sign("old", "127.0.0.1"))
    said: list[str] = []

    async def main():
        files = (tmp_path / "tls.crt", tmp_path / "tls.key")
        async with scheduling(server_with(), tls=files, reread_s=0.01, say=said.append) as pages:
            port = int(pages.address.rpartition(":")[2])
            first = await shown_by(port)
            write(tmp_path, authority.sign("new", "127.0.0.1"))
            async with asyncio.timeout(GIVE_UP_S):
                while await shown_by(port) == first:
                    await asyncio.sleep(0.01)
            return first, await shown_by(port)

    assert asyncio.run(main()) == ("old", "new")
    assert f"{tmp_path / 'tls.crt'}: the new certificate is in use" in said


async def test_half_of_a_new_pair_changes_nothing_and_is_reported_once(tmp_path):
    authority = Authority()
    write(tmp_path, authority.sign("old"))
    said: list[str] = []
    certificate = ServedCertificate(tmp_path / "tls.crt", tmp_path / "tls.key", said.append)
    new = authority.sign("new")

    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", ssl=certificate.context)
    port = server.sockets[0].getsockname()[1]
    seen = []
    for change in (
        lambda: (tmp_path / "tls.crt").write_bytes(new.certificate),
        lambda: None,
        lambda: (tmp_path / "tls.key").unlink(),
        lambda: (tmp_path / "tls.key").write_bytes(new.key),
    ):
        change()
        certificate.look()
        seen.append((await shown_by(port), len(said)))
    server.close()
    await server.wait_closed()
    assert seen == [("old", 1), ("old", 1), ("old", 2), ("new", 3)]
    assert "the old one stays in use" in said[0]
