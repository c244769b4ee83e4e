"""What the status page shows of answers that are said again."""

import msgspec


class ReuseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that are said again while nothing looks different; questions about whole frames are not among them.

    ``hit_ratio`` is the share of the questions that was spared, ``mean_ms`` what a question takes on the average, by
    that. At most ``most_bits`` may differ now, below 0 nothing is spared; ``disagreement`` is the share of recent
    audits that contradicted (null: none yet).
    """

    spared: int
    answered: int
    hit_ratio: float | None
    mean_ms: float | None
    most_bits: int
    disagreement: float | None
