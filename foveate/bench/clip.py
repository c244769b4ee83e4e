"""What a clip itself costs to send, and its first frames as a clip of their own."""

from dataclasses import dataclass
from pathlib import Path

import av

from edge_agent.gate import BASELINE_QUALITY, jpeg
from foveate.models.clips import sampled_frames
from pipeline.errors import SourceError


@dataclass(frozen=True, slots=True)
class ClipBytes:
    """The frames of a clip, and the bytes of all of them as JPEG of quality 80."""

    frames: int
    jpeg_bytes: int


def measure(clip: Path) -> ClipBytes:
    """Encode every frame of a clip. Raises SourceError where it has none."""
    sizes = [len(jpeg(image, BASELINE_QUALITY)) for _, image in sampled_frames(clip, 1)]
    return ClipBytes(len(sizes), sum(sizes))


def video_bytes_per_frame(clip: Path) -> float:
    """Bytes of a file's video stream, per frame. Raises SourceError where it has none."""
    sizes = _packet_sizes(clip)
    if not sizes:
        raise SourceError(f"{clip} has no video: name a video file.")
    return sum(sizes) / len(sizes)


def cut(clip: Path, frames: int, target: Path) -> None:
    """Copy about the first ``frames`` frames of a clip, as they are encoded, into a file of the same kind.

    Where frames are stored out of order it goes on to the next key frame, so that none is lost in between.
    """
    try:
        with av.open(str(clip)) as source, av.open(str(target), "w") as out:
            stream = source.streams.video[0]
            copy = out.add_stream_from_template(stream)
            count, reordered = 0, False
            for packet in source.demux(stream):
                if not packet.size:
                    continue
                if count >= frames and (packet.is_keyframe or not reordered):
                    break
                count += 1
                reordered |= packet.pts != packet.dts
                packet.stream = copy
                out.mux(packet)
    except (av.FFmpegError, IndexError, OSError) as error:
        raise SourceError(f"Cannot cut the clip {clip} ({error}): name another one with --clip.") from error


def _packet_sizes(clip: Path) -> list[int]:
    try:
        with av.open(str(clip)) as source:
            return [int(packet.size) for packet in source.demux(source.streams.video[0]) if packet.size]
    except (av.FFmpegError, IndexError, OSError) as error:
        raise SourceError(f"Cannot read {clip} as video ({error}): name a video file.") from error
