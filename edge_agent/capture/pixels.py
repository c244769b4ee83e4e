"""One picture in memory that two processes share: the reader writes it, the agent copies it out."""

import contextlib
import fcntl
import mmap
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.frames import Image

CHANNELS = 3


def create_shared_file() -> int:
    """Open an anonymous, empty file that may grow and never shrinks; the caller closes the descriptor."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("foveate-picture", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # A reader gone wrong must not be able to cut the file under the agent's mapping (SIGBUS).
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return descriptor
    descriptor, path = tempfile.mkstemp(prefix="foveate-picture-")
    Path(path).unlink()
    return descriptor


class SharedPicture:
    """A view of the shared file that is renewed when the file has grown. Owns no descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._map: mmap.mmap | None = None

    def _pixels(self, height: int, width: int) -> NDArray[np.uint8]:
        needed_bytes = height * width * CHANNELS
        if self._map is None or len(self._map) < needed_bytes:
            self.release()
            self._map = mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size)
        flat = np.frombuffer(self._map, dtype=np.uint8, count=needed_bytes)
        return flat.reshape(height, width, CHANNELS)

    def write(self, image: Image) -> None:
        """Put a (h, w, 3) image in, growing the file where it is too small."""
        height, width = image.shape[:2]
        if os.fstat(self._descriptor).st_size < image.nbytes:
            os.ftruncate(self._descriptor, image.nbytes)
        np.copyto(self._pixels(height, width), image)

    def copy(self, height: int, width: int) -> Image:
        """Take a copy out, read-only. Raises ValueError where the file holds less than that."""
        if height < 1 or width < 1 or os.fstat(self._descriptor).st_size < height * width * CHANNELS:
            raise ValueError(f"the shared file holds no picture of {width}x{height}")
        image = self._pixels(height, width).copy()
        image.setflags(write=False)
        return image

    def release(self) -> None:
        """Unmap; a view still in use in another thread keeps the mapping until it is done."""
        if self._map is not None:
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
