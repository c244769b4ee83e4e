"""The keys of what is said again. Every default is that of the settings they become."""

from foveate.config.fields import Keys, key
from pipeline.policies.near_duplicate import NearDuplicateSettings

_REUSE = NearDuplicateSettings()


class ReuseKeys(Keys):
    """An answer said again, while what was asked about looks the same."""

    enabled: bool = key(_REUSE.enabled, "Ask nothing where all that would be asked about looks as when it was answered")
    most_bits: int = key(_REUSE.most_bits, "Bits of 64 in which two pictures of one place may differ", ge=0, le=32)
    ttl_s: float = key(_REUSE.ttl_s, "An answer is said again for this long", gt=0, le=60)
    bypass_share: float = key(
        _REUSE.bypass_share, "Share of such questions asked all the same, to see whether that is right", gt=0, le=1
    )
    most_disagreement: float = key(
        _REUSE.most_disagreement, "Share of them that may contradict, before pictures must be more alike", ge=0, le=1
    )
