"""Kubeconfigs: every common form works, and every mistake is reported without revealing a secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from hostler.errors import InputError
from hostler.kube.api.access import read_access
from hostler.kube.api.credentials import ExecPlugin, FileCredential
from tests.kube.api.certificates import Authority

SECRET = "very-secret-word"


def write(path: Path, *, user=None, cluster=None, name="one", namespace="", **top) -> Path:
    """Write a kubeconfig with one context; YAML takes JSON."""
    cluster = {"server": "https://127.0.0.1:6443", **(cluster or {})}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": f"{name}-cluster", "cluster": cluster}],
        "users": [{"name": f"{name}-user", "user": {"token": SECRET} if user is None else user}],
        "contexts": [
            {
                "name": name,
                "context": {"cluster": f"{name}-cluster", "user": f"{name}-user", "namespace": namespace},
            }
        ],
        **top,
    }
    path.write_text(json.dumps(content))
    return path


def refusal(path: Path, context: str = "") -> InputError:
    with pytest.raises(InputError) as caught:
        read_access(path, context)
    assert SECRET not in caught.value.message + caught.value.hint
    return caught.value


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def test_a_token_and_the_namespace_of_the_context(tmp_path):
    access = read_access(write(tmp_path / "config", namespace="team"))
    assert access.server == "https://127.0.0.1:6443"
    assert access.credential.identity.token == SECRET
    assert access.namespace == "team"
    assert access.notes == ()


def test_nothing_shows_a_secret(tmp_path):
    access = read_access(write(tmp_path / "config"))
    assert SECRET not in repr(access) + repr(access.credential) + repr(access.credential.identity) + str(access)


def test_certificates_from_files_relative_to_the_kubeconfig_and_from_data(tmp_path):
    authority = Authority()
    pair = authority.sign("me")
    (tmp_path / "pki").mkdir()
    for name, pem in (("ca", authority.pem), ("me.crt", pair.certificate), ("me.key", pair.key)):
        (tmp_path / "pki" / name).write_bytes(pem)
    files = read_access(
        write(
            tmp_path / "files",
            user={"client-certificate": "pki/me.crt", "client-key": "pki/me.key"},
            cluster={"certificate-authority": "pki/ca"},
        )
    )
    data = read_access(
        write(
            tmp_path / "data",
            user={"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)},
            cluster={"certificate-authority-data": encoded(authority.pem)},
        )
    )
    for access in (files, data):
        assert access.authority == authority.pem
        assert access.credential.identity.certificate == pair.certificate
        assert access.credential.identity.key == pair.key


def test_a_token_file_and_a_plugin_become_credentials_that_renew(tmp_path):
    (tmp_path / "token").write_text(f"{SECRET}\n")
    access = read_access(write(tmp_path / "config", user={"tokenFile": "token", "token": "old"}))
    assert isinstance(access.credential, FileCredential)
    assert access.credential.identity.token == SECRET
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "some-plugin", "args": None, "env": None}
    assert isinstance(read_access(write(tmp_path / "config", user={"exec": plugin})).credential, ExecPlugin)


def test_an_unverified_server_is_noted(tmp_path):
    access = read_access(write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True}))
    assert access.is_insecure
    assert "not verified" in access.notes[0]


def test_a_name_for_the_servers_certificate_is_kept(tmp_path):
    assert read_access(write(tmp_path / "config", cluster={"tls-server-name": "kube"})).server_name == "kube"


def test_files_are_merged_and_the_first_that_says_something_wins(tmp_path):
    first = write(tmp_path / "first", name="one")
    second = write(tmp_path / "second", name="two", cluster={"server": "https://two:1"}, namespace="second")
    third = write(tmp_path / "third", name="two", cluster={"server": "https://three:1"})
    (tmp_path / "empty").write_text("")
    paths = [tmp_path / "missing", tmp_path / "empty", first, second, third]
    environment = {"KUBECONFIG": ":".join(map(str, paths))}
    assert read_access(environment=environment).server == "https://127.0.0.1:6443"
    access = read_access(None, "two", environment=environment)
    assert (access.server, access.namespace) == ("https://two:1", "second")


def test_the_file_in_the_home_folder_is_the_default(tmp_path):
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", namespace="home")
    assert read_access(environment={}, home=tmp_path).namespace == "home"


def test_inside_a_pod_the_service_account_is_used(tmp_path):
    account = tmp_path / "account"
    account.mkdir()
    for name, text in (("token", SECRET), ("ca.crt", Authority().pem.decode()), ("namespace", "kube-system")):
        (account / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = read_access(environment=environment, home=tmp_path, service_account=account)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "kube-system"
    assert access.credential.identity.token == SECRET


def test_no_kubeconfig_anywhere_says_where_one_could_be(tmp_path):
    with pytest.raises(InputError, match="there is no kubeconfig") as caught:
        read_access(environment={}, home=tmp_path)
    assert "KUBECONFIG" in caught.value.hint


def test_a_missing_file_is_named(tmp_path):
    assert "nothing-here" in refusal(tmp_path / "nothing-here").message
    with pytest.raises(InputError, match="nothing-here"):
        read_access(environment={"KUBECONFIG": str(tmp_path / "nothing-here")}, home=tmp_path)


def test_an_unknown_context_names_a_near_one(tmp_path):
    error = refusal(write(tmp_path / "config", name="production"), "prodution")
    assert "there is no context 'prodution'" in error.message
    assert "production" in error.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": []}, "there is no user 'one-user'"),
        ({"clusters": None}, "there is no cluster 'one-cluster'"),
        ({"current-context": "gone"}, "there is no context 'gone'"),
        ({"users": [{"name": "one-user", "user": {"token": 7}}]}, "Expected `str`, got `int`"),
        ({"users": SECRET}, "Expected `array"),
    ],
    ids=["user", "cluster", "context", "token", "users"],
)
def test_what_is_missing_or_of_another_kind_is_named(tmp_path, change, message):
    assert message in refusal(write(tmp_path / "config", **change)).message


def test_of_several_contexts_one_must_be_chosen(tmp_path):
    contexts = [{"name": name, "context": {"cluster": "one-cluster"}} for name in ("a", "b")]
    path = write(tmp_path / "config", contexts=contexts, **{"current-context": ""})
    assert "no current context is set" in refusal(path).message
    assert read_access(path, "b").credential.identity.token == ""


@pytest.mark.parametrize(
    "text",
    [f"users: [{{name: a, user: {{token: {SECRET}", f"token: {SECRET}\n\tx: {SECRET}", f"{SECRET}", f"- {SECRET}"],
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path, text):
    (tmp_path / "config").write_text(text)
    assert str(tmp_path / "config") in refusal(tmp_path / "config").message


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"username": "me", "password": SECRET}, "user name and password are not supported"),
        ({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}}, "auth-provider is not supported"),
        ({"as": "root", "token": SECRET}, "impersonation"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "v1alpha1"),
        (
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Always"}},
            "needs a terminal",
        ),
        ({"client-certificate-data": encoded(Authority().pem)}, "one of the two is missing"),
        ({"client-certificate-data": SECRET}, "client-certificate-data is not base64"),
        ({"client-certificate-data": encoded(b"x"), "client-key-data": ""}, "client-certificate is not PEM"),
        ({"client-certificate": "missing.crt", "client-key": "x"}, "missing.crt: cannot be read"),
        ({"tokenFile": "missing-token"}, "missing-token cannot be read"),
        ({"token": f"{SECRET}\nand more"}, "characters that are not allowed"),
    ],
)
def test_a_user_that_cannot_be_used_is_refused_with_the_reason(tmp_path, user, message):
    assert message in refusal(write(tmp_path / "config", user=user)).message


def test_a_key_that_does_not_belong_or_is_locked_is_refused(tmp_path):
    authority = Authority()
    pair, other, locked = authority.sign("me"), authority.sign("me"), authority.sign("me", password=b"word")
    for certificate, key, message in (
        (pair.certificate, other.key, "is invalid"),
        (locked.certificate, locked.key, "encrypted"),
    ):
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
        assert message in refusal(write(tmp_path / "config", user=user)).message


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"proxy-url": "http://proxy"}, "proxy-url is not supported"),
        ({"server": ""}, "not a valid address"),
        ({"server": "localhost:6443"}, "not a valid address"),
        ({"server": "https://host:99999"}, "not a valid address"),
        ({"server": f"https://me:{SECRET}@host"}, "not a valid address"),
        ({"certificate-authority": "gone.crt"}, "gone.crt: cannot be read"),
        (
            {"certificate-authority-data": encoded(b"-----BEGIN CERTIFICATE-----\nx\n")},
            "no readable certificate",
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_with_the_reason(tmp_path, cluster, message):
    assert message in refusal(write(tmp_path / "config", cluster=cluster)).message
