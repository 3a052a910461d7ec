"""Reading files of strangers: YAML and JSON, their lines, and everything that can be wrong with them."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config import Document, kind_of, parse_documents, read_documents, write_yaml
from hostler.errors import DuplicateNameError, InputError


def _read(tmp_path, content: str | bytes, name: str = "fleet.yaml") -> list[Document]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_documents([str(path)])


def _value(text: str) -> object:
    data = parse_documents(f"x: {text}".encode(), "t.yaml")[0].data
    assert isinstance(data, dict)
    return data["x"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1", 1, id="integer"),
        pytest.param("-3", -3, id="negative"),
        pytest.param("+3", 3, id="plus"),
        pytest.param("0", 0, id="zero"),
        pytest.param("0777", "0777", id="octal-stays-text"),
        pytest.param("0o17", "0o17", id="new-octal-stays-text"),
        pytest.param("0x1F", "0x1F", id="hexadecimal-stays-text"),
        pytest.param("1_000", "1_000", id="underscores-stay-text"),
        pytest.param("12:30:45", "12:30:45", id="base-sixty-stays-text"),
        pytest.param("9" * 200, "9" * 200, id="absurd-integer-stays-text"),
        pytest.param("0.5", 0.5, id="fraction"),
        pytest.param(".5", 0.5, id="leading-point"),
        pytest.param("1e+3", 1000.0, id="exponent-with-sign"),
        pytest.param("1.0e3", 1000.0, id="exponent-with-point"),
        pytest.param("1e3", "1e3", id="bare-exponent-stays-text"),
        pytest.param("12e5678", "12e5678", id="commit-stays-text"),
        pytest.param("1.", 1.0, id="trailing-point"),
        pytest.param("00.5", "00.5", id="leading-zeros-stay-text"),
        pytest.param(".", ".", id="point-stays-text"),
        pytest.param("1.5E-3", 0.0015, id="negative-exponent"),
        pytest.param(".inf", float("inf"), id="infinity"),
        pytest.param("-.inf", float("-inf"), id="minus-infinity"),
        pytest.param("true", True, id="true"),
        pytest.param("False", False, id="False"),
        pytest.param("yes", "yes", id="yes-stays-text"),
        pytest.param("no", "no", id="no-stays-text"),
        pytest.param("on", "on", id="on-stays-text"),
        pytest.param("off", "off", id="off-stays-text"),
        pytest.param("y", "y", id="y-stays-text"),
        pytest.param("2024-01-02", "2024-01-02", id="date-stays-text"),
        pytest.param("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z", id="timestamp-stays-text"),
        pytest.param("null", None, id="null"),
        pytest.param("~", None, id="tilde"),
        pytest.param("", None, id="nothing"),
        pytest.param('"1"', "1", id="quoted-number-is-text"),
        pytest.param("'true'", "true", id="quoted-word-is-text"),
        pytest.param("!!str 5", "5", id="text-by-tag"),
        pytest.param("!!int 5", 5, id="integer-by-tag"),
        pytest.param("!!float 5", 5, id="float-by-tag"),
        pytest.param("1500m", "1500m", id="quantity-stays-text"),
        pytest.param("{a: [1, {b: c}]}", {"a": [1, {"b": "c"}]}, id="flow-style"),
    ],
)
def test_plain_scalar_follows_the_core_schema(text, value):
    found = _value(text)
    assert found == value
    assert type(found) is type(value)


def test_nan_is_read_as_a_float():
    found = _value(".nan")
    assert isinstance(found, float)
    assert found != found


def test_several_documents_keep_their_index_and_lines(tmp_path):
    first, second = _read(tmp_path, "---\na: 1\n---\n# nothing here\n---\nb:\n  c: 2\n")
    assert (first.data, first.index, first.line_of(("a",))) == ({"a": 1}, 0, 2)
    assert (second.data, second.index, second.line_of(("b", "c"))) == ({"b": {"c": 2}}, 2, 7)


YAML = """\
hosts:
- name: a
  labels: {x: y,
           z: w}
-
  name: b
base: &base
  cpu: 1
derived:
  <<: *base
  memory: 2
again: *base
"""
JSON = r"""{
  "hosts": [
    {"name": "a",
     "labels": {"\ud83d\ude00 \"}[": 1}},
    {"name": "b"}
  ]
}
"""


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        pytest.param(YAML, (), 1, id="document"),
        pytest.param(YAML, ("hosts",), 1, id="key"),
        pytest.param(YAML, ("hosts", 0), 2, id="item"),
        pytest.param(YAML, ("hosts", 0, "labels", "z"), 4, id="inside-flow-style"),
        pytest.param(YAML, ("hosts", 1, "name"), 6, id="second-item"),
        pytest.param(YAML, ("hosts", 1, "absent"), 6, id="nearest-around-what-is-absent"),
        pytest.param(YAML, ("hosts", 7), 1, id="item-that-is-not-there"),
        pytest.param(YAML, ("derived", "cpu"), 8, id="merged-key-stands-at-its-anchor"),
        pytest.param(YAML, ("derived", "memory"), 11, id="own-key-beside-merge"),
        pytest.param(YAML, ("again", "cpu"), 8, id="through-an-alias"),
        pytest.param(JSON, (), 1, id="json-document"),
        pytest.param(JSON, ("hosts", 0), 3, id="json-item"),
        pytest.param(JSON, ("hosts", 0, "labels"), 4, id="json-key"),
        pytest.param(JSON, ("hosts", 0, "labels", '😀 "}['), 4, id="json-escapes-in-keys"),
        pytest.param(JSON, ("hosts", 1, "name"), 5, id="json-second-item"),
        pytest.param(JSON, ("hosts", 1, "absent"), 5, id="json-nearest-around"),
    ],
)
def test_line_of_a_value_is_known(text, path, line):
    assert parse_documents(text.encode(), "f")[0].line_of(path) == line


def test_place_is_written_as_file_and_line():
    document = parse_documents(b"a: 1\nb: 2\n", "fleet.yaml")[0]
    assert document.where(("b",)) == "fleet.yaml:2"


def test_json_with_tabs_is_json():
    document = parse_documents(b'{\n\t"a":\t1,\n\t"b":\t2\n}', "f.json")[0]
    assert document.data == {"a": 1, "b": 2}
    assert document.line_of(("b",)) == 3


def test_flow_style_yaml_that_is_no_json_is_read():
    assert parse_documents(b"{a: 1, b: [x, y,],}", "f")[0].data == {"a": 1, "b": ["x", "y"]}


def test_merge_keys_let_own_keys_win_and_then_the_first_named():
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  x: 0\n  <<: [*a, *b]\n"
    data = parse_documents(text.encode(), "f")[0].data
    assert isinstance(data, dict)
    assert data["c"] == {"x": 0, "y": 1, "z": 2}


def test_byte_order_mark_is_ignored():
    assert parse_documents(b"\xef\xbb\xbfa: 1", "f")[0].data == {"a": 1}
    assert parse_documents(b'\xef\xbb\xbf{"a": 1}', "f")[0].data == {"a": 1}


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", '{"a": 1,\n"b": 2,\n"a": 3}', "{a: 1,\nb: 2,\na: 3}"])
def test_duplicate_key_is_refused_with_both_lines(text):
    with pytest.raises(DuplicateNameError, match=r"f:3: key 'a' appears twice in one mapping, first in line 1"):
        parse_documents(text.encode(), "f")


def test_same_key_in_two_json_objects_is_no_duplicate():
    text = b'{"a": [{"x": 1}, {"x": 2}], "b": {"x": 3}}'
    assert parse_documents(text, "f")[0].data == {"a": [{"x": 1}, {"x": 2}], "b": {"x": 3}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "f: the file is empty", id="empty"),
        pytest.param(b"  \n\n", "f: the file is empty", id="blank"),
        pytest.param(b"# only a comment\n", "f: the file is empty", id="comment"),
        pytest.param(b"---\n---\n", "f: the file is empty", id="empty-documents"),
        pytest.param(b"a: 1\n1: b\n", "f:2: key 1 is not a string", id="number-as-key"),
        pytest.param(b"true: b\n", "f:1: key true is not a string", id="true-as-key"),
        pytest.param(b"~: b\n", "f:1: key null is not a string", id="null-as-key"),
        pytest.param(b"? [a]\n: b\n", "f:1: a key is a list or a mapping", id="list-as-key"),
        pytest.param(b"a: 1\n  b: 2\n", "f:2: this is not valid YAML", id="indentation"),
        pytest.param(b"a: [1, 2\n", "f:2: this is not valid YAML", id="open-list"),
        pytest.param(b"a: 'x\n", "f:2: this is not valid YAML", id="open-quote"),
        pytest.param(b'{"a": 1,\n "b" 2}', "f:2: this is not valid YAML", id="broken-json"),
        pytest.param(b"a: !!python/object/apply:os.system [x]", "f:1: tag .* is not supported", id="python-tag"),
        pytest.param(b"a: !secret x", "f:1: tag '!secret' is not supported", id="own-tag"),
        pytest.param(b"a: !!binary aGk=", "f:1: tag .* is not supported", id="binary-tag"),
        pytest.param(b"a: !!int x", "f:1: 'x' is no int", id="wrong-tag"),
        pytest.param(b"a: *b", "f:1: alias '\\*b' names no anchor", id="unknown-alias"),
        pytest.param(b"a: &a [*a]", "f:1: alias '\\*a' names no anchor", id="alias-inside-itself"),
        pytest.param(b"a: {<<: 1}", "f:1: a merge key needs a mapping", id="merge-of-a-number"),
        pytest.param(b"a: 1\nb: \xff\n", "f:2: the file is not UTF-8", id="not-utf-8"),
        pytest.param("a: b".encode("utf-16"), "f:1: the file is not UTF-8", id="utf-16"),
        pytest.param(b"a: \x00", "f: it has a character that YAML does not allow", id="nul"),
    ],
)
def test_bad_content_is_refused_with_file_and_line(content, message):
    with pytest.raises(InputError, match=f"^{message}") as caught:
        parse_documents(content, "f")
    assert caught.value.hint


@pytest.mark.parametrize("opening", ["[", "[ ", "- ", "{a: ", '{"a": '])
def test_hundred_thousand_levels_are_refused(opening):
    with pytest.raises(InputError, match="nested more than 100 levels"):
        parse_documents((opening * 100_000).encode(), "f")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("levels", [101, 500, 100_000])
def test_deep_but_valid_json_is_refused(opening, closing, levels):
    with pytest.raises(InputError, match="nested more than 100 levels"):
        parse_documents((opening * levels + "1" + closing * levels).encode(), "f")


def test_hundred_levels_are_read_in_yaml_and_json():
    text = b"[" * 100 + b"1" + b"]" * 100
    assert parse_documents(text, "f")[0].data == parse_documents(b"# yaml\n" + text, "f")[0].data


def test_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(InputError, match=r"f:6: aliases stand for more than 1,000,000 values"):
        parse_documents("\n".join(lines).encode(), "f")


def test_merge_bomb_is_refused():
    big = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(1000)) + "}\n"
    bomb = big + "".join(f"b{i}: {{<<: *a}}\n" for i in range(2000))
    with pytest.raises(InputError, match=r"aliases stand for more than 1,000,000 values"):
        parse_documents(bomb.encode(), "f")


def test_ladder_of_aliases_cannot_pass_the_limit_of_depth():
    ladder = "x0: &x0 [1]\n" + "".join(f"x{i}: &x{i} [*x{i - 1}]\n" for i in range(1, 200))
    with pytest.raises(InputError, match="f:100: it is nested more than 100 levels"):
        parse_documents(ladder.encode(), "f")


def test_too_many_documents_are_refused():
    with pytest.raises(InputError, match="more than 100,000 documents"):
        parse_documents(b"---\n" * 100_002, "f")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: random.Random(7).randbytes(50_000_000), "larger than 16 MiB|not UTF-8", id="random-bytes"),
        pytest.param(lambda: b"{" + random.Random(7).randbytes(50_000_000), "not valid JSON", id="random-after-brace"),
        pytest.param(lambda: b"a" * 50_000_000, "larger than 16 MiB", id="letters"),
        pytest.param(lambda: b"- a\n" * 12_500_000, "larger than 16 MiB", id="list-items"),
        pytest.param(lambda: b"[" * 50_000_000, "nested more than 100 levels", id="brackets"),
    ],
)
def test_fifty_megabytes_of_nonsense_are_refused(tmp_path, make, message):
    with pytest.raises(InputError, match=message) as caught:
        _read(tmp_path, make())
    assert caught.value.hint
    assert len(str(caught.value)) < 300


def test_large_json_is_read_beyond_the_limit_of_yaml_but_knows_no_lines(tmp_path):
    data = {"apiVersion": "v", "kind": "k", "pad": "x" * (17 << 20)}
    [document] = _read(tmp_path, json.dumps(data))
    assert kind_of(document) == ("v", "k")
    assert document.line_of(("kind",)) is None
    assert document.where(("kind",)) == document.source


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("no/such/file.yaml", "cannot be read: no such file", id="absent"),
        pytest.param(".", "this is a folder", id="folder"),
        pytest.param("a\0b", "cannot be read", id="nul-in-path"),
        pytest.param("x" * 5000, "cannot be read", id="too-long"),
    ],
)
def test_path_that_cannot_be_read_is_refused_with_a_hint(source, message):
    with pytest.raises(InputError, match=message) as caught:
        read_documents([source])
    assert caught.value.hint
    assert len(str(caught.value)) < 300


def test_endless_file_is_not_read_to_its_end():
    with pytest.raises(InputError, match="larger than 16 MiB"):
        read_documents(["/dev/zero"])


def test_standard_input_is_read_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\n")))
    [document] = read_documents(["-"])
    assert (document.data, document.where(("a",))) == ({"a": 1}, "<stdin>:1")
    with pytest.raises(InputError, match="named twice"):
        read_documents(["-", "-"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[1]", "must be a mapping, not a list", id="list"),
        pytest.param("hello", "must be a mapping, not a single value", id="text"),
        pytest.param("a: 1", "has no 'apiVersion'", id="no-version"),
        pytest.param("apiVersion: v1", "has no 'kind'", id="no-kind"),
        pytest.param("apiVersion: 1\nkind: x", "apiVersion must be a string", id="number"),
    ],
)
def test_document_without_kind_is_refused_with_the_two_lines_to_write(text, message):
    with pytest.raises(InputError, match=message) as caught:
        kind_of(parse_documents(text.encode(), "f")[0])
    assert "kind: Fleet" in caught.value.hint


PURE = """
import sys, yaml
for name in [n for n in vars(yaml) if n.startswith("C") and n.endswith(("Loader", "Dumper"))]:
    delattr(yaml, name)
from hostler.config import parse_documents, write_yaml
document = parse_documents(b"a: &a [1, no, 0777]\\nb: {<<: {c: *a}}\\n", "f")[0]
assert document.data == {"a": [1, "no", "0777"], "b": {"c": [1, "no", "0777"]}}, document.data
assert document.line_of(("b", "c")) == 2
assert parse_documents(write_yaml(document.data).encode(), "f")[0].data == document.data
"""


def test_without_the_c_library_the_answers_are_the_same():
    subprocess.run([sys.executable, "-c", PURE], check=True)


scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
trees = st.recursive(
    scalars | texts | st.sampled_from(["1e3", "0777", "yes", "~", "<<", "2024-01-01", "1.", "- a", "a: b", "=", "0x1"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(texts, children, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(texts, trees, max_size=4))
def test_written_yaml_and_json_read_back_the_same(data):
    assert parse_documents(write_yaml(data).encode(), "f")[0].data == data
    assert parse_documents(json.dumps(data).encode(), "f")[0].data == data


@given(st.binary(max_size=60))
def test_any_bytes_are_documents_or_an_input_error(content):
    with suppress(InputError):
        assert all(document.line_of(()) for document in parse_documents(content, "f"))


@given(st.lists(st.sampled_from(list("[]{}:,-?&*!|>'\"%@#~ \n\tab1<")), max_size=40).map("".join))
def test_any_punctuation_is_documents_or_an_input_error(text):
    with suppress(InputError):
        assert all(document.line_of(()) for document in parse_documents(text.encode(), "f"))
