"""YAML as plain values that remember their lines."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.config.document import Document, escape, parse_document, read_document
from pipeline.errors import ConfigError


def parse(text: str, **env: str) -> Document:
    return parse_document(text, "f.yaml", env)


def problems(document: Document) -> list[str]:
    return [f"{fault.problem}; {fault.advice}" for fault in document.faults]


def test_every_scalar_stays_the_text_that_was_written() -> None:
    values = parse("a: no\nb: 0123\nc: 1:30\nd: 2024-01-01\ne: 1.50\nf: 'null'\ng: true").values
    assert values == {"a": "no", "b": "0123", "c": "1:30", "d": "2024-01-01", "e": "1.50", "f": "null", "g": "true"}


@pytest.mark.parametrize("text", ["a:", "a: ~", "a: null"])
def test_an_empty_value_is_none(text: str) -> None:
    assert parse(text).values == {"a": None}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null"])
def test_an_empty_file_has_no_values(text: str) -> None:
    assert parse(text).values == {}


def test_keys_and_list_items_know_their_lines() -> None:
    lines = parse("a: 1\nb:\n  - x\n  - y: 2\n    z: {q: 3}\n").lines
    assert lines[("a",)] == 1
    assert lines[("b", 0)] == 3
    assert lines[("b", 1, "y")] == 4
    assert lines[("b", 1, "z", "q")] == 5


def test_a_key_given_twice_is_a_fault_that_names_both_lines() -> None:
    document = parse("a: 1\nb: 2\na: 3\n")
    assert problems(document) == ["is given a second time in line 3; keep one of the two"]
    assert document.lines[document.faults[0].loc] == 1


def test_variables_are_taken_from_the_environment() -> None:
    document = parse("a: ${X}\nb: rtsp://u:${Y}@h\n", X="one", Y="two")
    assert document.values == {"a": "one", "b": "rtsp://u:two@h"}
    assert document.references == {"one": "${X}", "two": "${Y}"}


def test_what_a_variable_holds_is_not_expanded_again() -> None:
    assert parse("a: ${X}", X="${Y}", Y="no").values == {"a": "${Y}"}


def test_a_variable_that_is_not_set_is_named() -> None:
    assert problems(parse("a: ${X}")) == ["uses ${X}, which is not set; set the environment variable X"]


@pytest.mark.parametrize("text", ["${", "${}", "${1}", "${a b}", "x ${X"])
def test_an_unfinished_variable_is_a_fault(text: str) -> None:
    assert "without the name of a variable" in problems(parse(f"a: '{text}'", X="v"))[0]


@pytest.mark.parametrize(("written", "meant"), [("$${X}", "${X}"), ("$5", "$5"), ("a$$b", "a$$b"), ("$$${X}", "$${X}")])
def test_a_dollar_can_be_written(written: str, meant: str) -> None:
    assert parse(f"a: {written}").values == {"a": meant}


@settings(deadline=None)
@given(st.text(st.sampled_from("$}{X a"), max_size=12))
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    document = parse("a: '" + escape(text) + "'", X="wrong")
    assert document.values == {"a": text}
    assert not document.faults


def test_aliases_work() -> None:
    assert parse("a: &x {b: 1}\nc: *x").values == {"a": {"b": "1"}, "c": {"b": "1"}}


def test_a_tag_is_refused_and_its_text_not_repeated() -> None:
    document = parse("password: !hunter2 x")
    assert problems(document) == ["has a value that begins with '!'; put it in quotes"]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\nb: [1, 2\nc: 3", 3), ("a: b: c", 1), ("a: 1\n\tb: 2", 2), ("a: @x", 1), ("a: 1\n--- \nb: 2", 2)],
)
def test_text_that_is_no_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=rf"f\.yaml line {line}\)"):
        parse(text)


def test_a_variable_that_yaml_takes_for_a_brace_gets_the_advice_to_quote_it() -> None:
    with pytest.raises(ConfigError, match=r"line 2\): .*; put \$\{NAME\} in quotes"):
        parse("a: 1\nb: {c: ${X}}", X="1")


def test_an_undefined_alias_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigError, match=r"line 1\): a value begins with '\*'; put it in quotes") as caught:
        parse("password: *hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["just words", "- a\n- b", "5"])
def test_a_file_that_is_no_group_of_keys_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no group of keys"):
        parse(text)


def test_a_key_that_is_no_text_is_a_fault() -> None:
    assert problems(parse("[1, 2]: 3")) == ["is a key that is no text; write 'key: value'"]


def test_a_file_that_unfolds_without_bound_is_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{after}: &{after} [*{before}, *{before}, *{before}, *{before}]\n"
        for before, after in zip("abcdefghijk", "bcdefghijkl", strict=True)
    )
    with pytest.raises(ConfigError, match="too large or nested too deeply"):
        parse(bomb)


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: " + "[" * 3_000, "a: " + "[" * 50 + "]" * 50])
def test_endless_or_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse(text)


def test_a_character_that_yaml_forbids_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml line 2"):
        parse("a: 1\nb: \x07")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_values_or_a_sentence(text: str) -> None:
    try:
        parse(text)
    except ConfigError as error:
        sentence = str(error)
    else:
        return
    assert "f.yaml" in sentence


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: \xc3\xbc\n")
    assert read_document(path, {}).values == {"a": "ü"}


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_document(tmp_path / "absent.yaml", {})
    with pytest.raises(ConfigError, match="Is a directory"):
        read_document(tmp_path, {})


def test_a_file_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigError, match=r"not UTF-8 \(.*line 2\)"):
        read_document(path, {})


def test_a_video_given_as_configuration_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"a" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_document(path, {})
