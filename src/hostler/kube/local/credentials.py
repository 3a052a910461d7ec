"""Authentication in a local cluster: a certificate authority, keys, and one token for each user.

Each user gets a kubeconfig with the authority inside. All are made with the cluster, kept in its folder, and readable
by its owner only. Used by ``cluster``.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import secrets
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hostler.config import did_you_mean, write_yaml
from hostler.errors import UnknownNameError
from hostler.runtime.files import write_private

__all__ = [
    "CERTIFICATE_USER",
    "USERS",
    "LocalUser",
    "kubeconfig_path",
    "make_credentials",
    "token_of",
    "write_kubeconfigs",
]


class LocalUser(msgspec.Struct, frozen=True):
    """A user of a local cluster: the name and the groups that the API server sees."""

    name: str
    groups: tuple[str, ...] = ()


# by our names
USERS = {
    "admin": LocalUser("hostler-admin", ("system:masters",)),
    "hostler": LocalUser("hostler"),
    "kube-scheduler": LocalUser("system:kube-scheduler"),
    "controllers": LocalUser("system:kube-controller-manager"),
    "kwok": LocalUser("kwok"),
    "nobody": LocalUser("nobody"),
}
CERTIFICATE_USER = "certificate"  # another administrator, with a certificate and without a token

_VALID = datetime.timedelta(days=3650)
_BEFORE = datetime.timedelta(hours=1)  # tolerance for clocks that are set back
_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "10.0.0.1")  # the second one is the service address for pods

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
    """Make a certificate; one without an issuer is an authority."""
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


def kubeconfig_path(folder: Path, user: str) -> Path:
    """Return the kubeconfig of a user; the administrator's has the plain name."""
    known = [*USERS, CERTIFICATE_USER]
    if user not in known:
        raise UnknownNameError(
            f"no user of a local cluster is named {user!r}",
            hint=did_you_mean(user, known),
        )
    return folder / ("kubeconfig" if user == "admin" else f"kubeconfig-{user}")


def write_kubeconfigs(folder: Path, name: str, url: str) -> None:
    """Write the kubeconfig of every user."""
    for user in (*USERS, CERTIFICATE_USER):
        if user == CERTIFICATE_USER:
            proof = {
                "client-certificate-data": _encode_file(folder / "client.crt"),
                "client-key-data": _encode_file(folder / "client.key"),
            }
        else:
            proof = {"token": token_of(folder, user)}
        cluster = {"server": url, "certificate-authority-data": _encode_file(folder / "ca.crt")}
        context = f"hostler-{name}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": user, "user": proof}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
            "current-context": context,
        }
        write_private(kubeconfig_path(folder, user), write_yaml(content).encode())


def _encode_file(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
