"""What can be set about releases."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReleaseSettings:
    """Whose releases are taken. Without ``trusted_keys`` none are listened to.

    ``site`` is where this agent is, for releases that are for one site. A file of more than ``most_bytes`` is refused.
    ``threads`` are the inference threads of a released model.
    """

    trusted_keys: tuple[str, ...] = ()
    site: str = ""
    most_bytes: int = 32 * 1024 * 1024
    threads: int = 1
