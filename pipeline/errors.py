"""The exception tree. Every message is one sentence: what, where, the value, what to do.

FoveateError
├── ConfigError   wrong use or configuration   exit code 2
├── SourceError   a source failed for good     exit code 3
├── BrokerError   broker unreachable, port in use   exit code 4
└── ModelError    a model file or its contract is wrong   exit code 5

Expected outcomes (a dropped frame, a refused request, the end of a stream) are values, never exceptions.
"""

from typing import ClassVar


class FoveateError(Exception):
    """Root of every error that Foveate raises on purpose."""

    exit_code: ClassVar[int] = 1


class ConfigError(FoveateError):
    """The command line or the configuration is wrong."""

    exit_code = 2


class SourceError(FoveateError):
    """A video source cannot be used and trying again will not help."""

    exit_code = 3


class BrokerError(FoveateError):
    """The MQTT broker cannot be reached, or a port is taken."""

    exit_code = 4


class ModelError(FoveateError):
    """A model file is missing, damaged, or does not fit its contract."""

    exit_code = 5
