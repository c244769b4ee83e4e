"""What a release's manifest promises of its model. Pure."""

from pipeline.releases.manifest import Manifest

_UNKNOWN_F1 = 0.8
_LEAST_RATIO, _MOST_RATIO = 0.05, 1.0


def promised_ratio(candidate: Manifest | None, current: Manifest | None) -> float:
    """A candidate's time per look as a multiple of the current model's (None: the one the agent was started with).

    The manifest's times were measured beside the general model's on one machine. 1 where nothing is promised: a
    release that is slower than what it replaces says nothing that would allow it.
    """
    mine, its = _of_general(candidate), _of_general(current)
    if mine is None:
        return 1.0
    return min(_MOST_RATIO, max(_LEAST_RATIO, mine / (its or 1.0)))


def released_f1(manifest: Manifest | None) -> float:
    """The F1 that a model was released with, where its own rollout has measured none."""
    return _UNKNOWN_F1 if manifest is None else min(1.0, max(0.0, manifest.figures.get("f1", _UNKNOWN_F1)))


def _of_general(manifest: Manifest | None) -> float | None:
    figures = {} if manifest is None else manifest.figures
    mine, general = figures.get("median_ms", 0.0), figures.get("general_median_ms", 0.0)
    return mine / general if mine > 0 and general > 0 else None
