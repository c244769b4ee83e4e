"""What can be set about a source."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Settings of one source.

    ``source``: RTSP or HTTP URL, path of a file or a folder of pictures, device path or ``device:N``, or
    ``synthetic:...``; like the password it may hold secrets, so it is left out of the value's text. ``realtime``: pace
    a file by its own time stamps and let the newest picture win.
    """

    source: str = field(repr=False)
    realtime: bool = False
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    rtsp_transport: str = "tcp"
    open_timeout_s: float = 5.0
    read_timeout_s: float = 5.0
    reconnect_first_s: float = 1.0
    reconnect_most_s: float = 30.0
    pixel_limit: int = 7680 * 4320
