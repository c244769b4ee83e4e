"""Broker URLs."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.transport.settings import MqttSettings
from pipeline.transport.url import BrokerUrl, masked, parse_broker_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://localhost", BrokerUrl("localhost", 1883)),
        ("mqtt://10.0.0.1:1999/", BrokerUrl("10.0.0.1", 1999)),
        ("mqtts://broker.example", BrokerUrl("broker.example", 8883, tls=True)),
        ("mqtt://[::1]:1884", BrokerUrl("::1", 1884)),
        ("MQTT://ann@Host", BrokerUrl("host", 1883, username="ann")),
        ("mqtt://ann:S3cr%26t%2F%C3%9C@h:1", BrokerUrl("h", 1, username="ann", password="S3cr&t/Ü")),
    ],
)
def test_a_url_names_host_port_tls_and_credentials(url: str, expected: BrokerUrl) -> None:
    assert parse_broker_url(url) == expected


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "must begin with"),
        ("localhost:1883", "must begin with"),
        ("http://h", "must begin with"),
        ("mqtt://", "no host"),
        ("mqtt://:1883", "no host"),
        ("mqtt://h:0", "port 0"),
        ("mqtt://h:65536", "port"),
        ("mqtt://h:x", "port"),
        ("mqtt://[::1", "host or port"),
        ("mqtt://h/topic", "nothing may follow"),
        ("mqtt://h?x=1", "nothing may follow"),
        ("mqtt://:secret@h", "no user name"),
        ("mqtt://a b", "no host"),
    ],
)
def test_a_bad_url_gets_one_sentence_that_says_what_is_wrong(url: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as caught:
        parse_broker_url(url)
    assert "mqtt://user:password@host:port" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["mqtt://ann:pw/secret@h", "mqtt://ann:secret#x@h:1", "x://ann:secret@h", "ann:secret@h"]
)
def test_a_bad_url_never_shows_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_broker_url(url)
    assert "secret" not in str(caught.value)


def test_printed_forms_hide_the_password() -> None:
    url = parse_broker_url("mqtts://ann:secret@[::1]:9")
    assert str(url) == "mqtts://***@[::1]:9"
    assert "secret" not in repr(url)
    assert "secret" not in repr(MqttSettings.of(url))
    assert masked("mqtt://h:1") == "mqtt://h:1"


def test_mqtts_brings_tls_to_the_settings() -> None:
    assert MqttSettings.of(parse_broker_url("mqtts://h")).tls is not None
    assert MqttSettings.of(parse_broker_url("mqtt://h")).tls is None


@given(st.text())
def test_any_text_is_a_url_or_a_configuration_error(text: str) -> None:
    for url in (text, f"mqtt://{text}"):
        with contextlib.suppress(ConfigError):
            assert 1 <= parse_broker_url(url).port <= 65_535
