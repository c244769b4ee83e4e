"""What is asked of TCP below MQTT."""

import array
import contextlib
import socket
import sys
from typing import Any

NO_DELAY = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
"""Without it a second small packet waits for the acknowledgement of the first: 40 ms and more on each hop."""


def unacknowledged_bytes(sock: Any) -> int:
    """Bytes that the kernel holds for a socket and the other end has not acknowledged; 0 where it cannot be told.

    The kernel's send buffer grows to megabytes, which on a slow link is a minute of pictures.
    """
    if not sys.platform.startswith("linux") or sock is None:
        return 0
    import fcntl
    import termios

    held = array.array("i", [0])
    with contextlib.suppress(OSError, ValueError):
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, held)
    return held[0]
