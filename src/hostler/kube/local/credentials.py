"""Who may talk to a local cluster and how it proves itself: a certificate authority, keys, one token for each user.

All made when the cluster is made, kept in its folder, readable by its owner only. Used by ``cluster``.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hostler.kube.local.state import write_private

__all__ = ["CERTIFICATE_USER", "USERS", "User", "make_credentials", "token_of"]


class User(msgspec.Struct, frozen=True):
    """A user of a local cluster: the name and the groups that the API server sees."""

    name: str
    groups: tuple[str, ...] = ()


# by the name that we call them
USERS = {
    "admin": User("hostler-admin", ("system:masters",)),
    "hostler": User("hostler"),
    "kube-scheduler": User("system:kube-scheduler"),
    "controllers": User("system:kube-controller-manager"),
    "kwok": User("kwok"),
    "nobody": User("nobody"),
}
CERTIFICATE_USER = "certificate"  # one more administrator, who has a certificate and no token

_VALID = datetime.timedelta(days=3650)
_BEFORE = datetime.timedelta(hours=1)  # for clocks that are set back
_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "10.0.0.1")  # the second is what pods would call

Key = ec.EllipticCurvePrivateKey


def make_credentials(folder: Path) -> None:
    """Write the keys, certificates and tokens of a new cluster into this folder."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("hostler-local-ca", authority_key, None, authority_key)
    _write(folder, "ca", authority_key, authority)
    for name, subject, organization, usage in (
        ("server", "kube-apiserver", "", ExtendedKeyUsageOID.SERVER_AUTH),
        ("client", "hostler-certificate", "system:masters", ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(subject, key, authority, authority_key, usage=usage, organization=organization)
        _write(folder, name, key, made)
    write_private(folder / "accounts.key", _pem(ec.generate_private_key(ec.SECP256R1())))
    lines = []
    for name, user in USERS.items():
        groups = f',"{",".join(user.groups)}"' if user.groups else ""
        lines.append(f"{secrets.token_urlsafe(32)},{user.name},{name}{groups}\n")
    write_private(folder / "tokens.csv", "".join(lines).encode())


def token_of(folder: Path, user: str) -> str:
    """Return the token of a user."""
    for line in (folder / "tokens.csv").read_text().splitlines():
        token, _, uid = line.split(",")[:3]
        if uid == user:
            return token
    raise KeyError(user)


def _write(folder: Path, name: str, key: Key, certificate: x509.Certificate) -> None:
    write_private(folder / f"{name}.key", _pem(key))
    write_private(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _certificate(
    subject: str,
    key: Key,
    issuer: x509.Certificate | None,
    issuer_key: Key,
    *,
    usage: x509.ObjectIdentifier | None = None,
    organization: str = "",
) -> x509.Certificate:
    """Make a certificate; one without an issuer is an authority of its own."""
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, subject)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    name = x509.Name(parts)
    now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - certificates are for real time only
    is_authority = issuer is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject if issuer is not None else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if usage == ExtendedKeyUsageOID.SERVER_AUTH:
        addresses = [x509.IPAddress(ipaddress.ip_address(one)) for one in _ADDRESSES]
        hosts = [x509.DNSName(one) for one in _HOSTS]
        builder = builder.add_extension(x509.SubjectAlternativeName([*addresses, *hosts]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
