"""A batch over several CPU threads: each takes its share of the pictures through the whole model."""

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.detectors.backend import ModelMeta, Session, TensorInfo


class SplitSession:
    """Implements ``Session``: one picture runs on ``whole``, whose threads share every operator; several are shared out
    among ``threads`` threads, each of which runs its part on ``single``, a session of one thread.

    Operators of a small model are over so soon that threads which share one wait for each other more than they work;
    threads with pictures of their own meet once a batch. Both sessions are of one model, whose batch is free.
    """

    def __init__(self, whole: Session, single: Session, threads: int) -> None:
        self._whole, self._single, self._threads = whole, single, threads

    def get_inputs(self) -> Sequence[TensorInfo]:
        return self._whole.get_inputs()

    def get_outputs(self) -> Sequence[TensorInfo]:
        return self._whole.get_outputs()

    def get_modelmeta(self) -> ModelMeta:
        return self._whole.get_modelmeta()

    def run(self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        pictures = min(len(feed) for feed in feeds.values())
        if pictures < 2:
            return self._whole.run(output_names, feeds)
        parts = min(self._threads, pictures)
        bounds = [pictures * part // parts for part in range(parts + 1)]
        shares = [
            _Share(self._single, output_names, {name: feed[start:end] for name, feed in feeds.items()})
            for start, end in pairwise(bounds)
        ]
        # Begun anew each time, and daemons: a thread costs a hundredth of a run, and none outlives a model that hangs.
        others = [threading.Thread(target=share.run, daemon=True) for share in shares[1:]]
        for other in others:
            other.start()
        shares[0].run()
        for other in others:
            other.join()
        results = [share.result() for share in shares]
        return [np.concatenate(each) for each in zip(*results, strict=True)]


class _Share:
    """One thread's part of a batch, and what came of it."""

    def __init__(self, session: Session, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> None:
        self._session, self._names, self._feeds = session, names, feeds
        self._outputs: list[NDArray[Any]] = []
        self._fault: Exception | None = None

    def run(self) -> None:
        try:
            self._outputs = self._session.run(self._names, self._feeds)
        except Exception as error:  # noqa: BLE001 - raised where the batch was asked for
            self._fault = error

    def result(self) -> list[NDArray[Any]]:
        """The outputs. Raises what the run raised."""
        if self._fault is not None:
            raise self._fault
        return self._outputs
