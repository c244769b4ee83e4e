"""The embedded broker as a process."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from foveate.broker import UNACKNOWLEDGED_MS, EmbeddedBroker, check_ports, prepare_connections
from pipeline.errors import BrokerError, ConfigError
from tests.support.brokers import HOST, Embedded, free_port
from tests.support.processes import assert_ends_with_its_parent


@pytest.fixture
def broker() -> Iterator[Embedded]:
    started = Embedded()
    started.start()
    yield started
    started.stop()


def connects(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def test_it_takes_connections_on_both_ports_as_soon_as_it_has_started(broker: Embedded) -> None:
    assert connects(broker.port)
    assert connects(broker.port_v3)


def test_it_is_a_process_of_its_own_and_its_ports_are_free_after_stop(broker: Embedded) -> None:
    pid = broker.pid
    assert pid is not None
    assert pid != os.getpid()
    broker.stop()
    assert broker.pid is None
    assert not psutil.pid_exists(pid)
    check_ports(HOST, (broker.port, broker.port_v3))
    broker.stop()  # twice does no harm


def test_it_listens_on_this_machine_alone(broker: Embedded) -> None:
    assert broker.pid is not None
    listening = [one for one in psutil.Process(broker.pid).net_connections("inet") if one.status == "LISTEN"]
    assert {(one.laddr.ip, one.laddr.port) for one in listening} == {(HOST, broker.port), (HOST, broker.port_v3)}


def test_a_broker_that_was_killed_is_seen_and_can_be_started_again(broker: Embedded) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    assert broker._process is not None
    broker._process.wait(5)
    assert broker.pid is None
    broker.start()
    assert connects(broker.port)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_port_in_use_is_one_sentence_that_names_it(taken: int) -> None:
    ports = [free_port(), free_port()]
    with socket.socket() as other:
        other.bind((HOST, ports[taken]))
        other.listen()
        with pytest.raises(
            BrokerError, match=f"cannot listen on {HOST}:{ports[taken]}: Address already in use"
        ) as caught:
            EmbeddedBroker(HOST, *ports).start()
    assert caught.value.exit_code == 4


def test_it_ends_when_its_parent_is_killed() -> None:
    port = free_port()
    script = f"""
import sys
from foveate.broker import EmbeddedBroker
broker = EmbeddedBroker({HOST!r}, {port}, None)
broker.start()
print(broker.pid, flush=True)
sys.stdin.read()
"""
    assert_ends_with_its_parent(script)


def test_the_command_runs_it_until_sigterm_and_ends_well() -> None:
    port = free_port()
    script = f"from foveate.broker import run_broker; run_broker({HOST!r}, {port}, None)"
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        for _ in range(500):
            if connects(port):
                break
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0


@pytest.mark.parametrize("host", ["", "example.com", "1.2.3", "127.0.0.1:1883"])
def test_a_host_that_is_no_address_is_a_configuration_error(host: str) -> None:
    with pytest.raises(ConfigError, match="not an IP address"):
        EmbeddedBroker(host)


@pytest.mark.parametrize("ports", [(0,), (65_536,), (1883, 1883), (1883, -1)])
def test_impossible_ports_are_a_configuration_error(ports: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="port"):
        check_ports(HOST, tuple(free_port() if port == 1883 and len(set(ports)) > 1 else port for port in ports))


def test_connections_to_a_listener_send_at_once_and_end_where_nobody_acknowledges() -> None:
    with socket.create_server((HOST, 0)) as listener, socket.create_server((HOST, 0)) as other:
        port = listener.getsockname()[1]
        assert prepare_connections(port)
        for each, expected in ((listener, True), (other, False)):
            with socket.create_connection(each.getsockname()), each.accept()[0] as accepted:
                assert (accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0) is expected
                if sys.platform == "linux":
                    given_up_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                    assert given_up_ms == (UNACKNOWLEDGED_MS if expected else 0)


def test_nothing_is_found_where_nobody_listens() -> None:
    port = free_port()
    assert not prepare_connections(port)
    with socket.socket() as bound:  # it has the port and takes no connections
        bound.bind((HOST, port))
        assert not prepare_connections(port)


PIDFD_GETFD = 438
"""The system call that duplicates another process's file; the same number on all of Linux's architectures."""


def listener_sends_at_once(pid: int, port: int) -> bool:
    """Whether TCP_NODELAY is set where another process listens on a port."""
    process = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            if not str(entry.readlink()).startswith("socket:"):
                continue
            copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, process, int(entry.name), 0)
            with socket.socket(fileno=copy) as each:
                listens = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if listens and each.getsockname()[1] == port:
                    return each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    finally:
        os.close(process)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for another process's socket")
def test_the_running_broker_sends_at_once(broker: Embedded) -> None:
    assert broker.pid is not None
    for _ in range(200):
        if listener_sends_at_once(broker.pid, broker.port):
            return
        time.sleep(0.01)
    pytest.fail("TCP_NODELAY is not set on the broker's listener")
