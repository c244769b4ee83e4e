"""Rebuild plaza.mp4 from OpenCV's vtest.avi: ``python sample_videos/make_plaza.py vtest.avi [plaza.mp4]``."""

import argparse
import sys
from fractions import Fraction
from pathlib import Path

import av

FRAME_RATE_HZ = 10
KEYFRAME_INTERVAL_FRAMES = 20


def encode(source: Path, target: Path) -> int:
    """Encode every frame of ``source`` as H.264 and return how many there were."""
    frames = 0
    with av.open(str(source)) as reader, av.open(str(target), "w", options={"movflags": "+faststart"}) as writer:
        video = reader.streams.video[0]
        # One thread: x264 then gives the same bytes on every machine.
        options = {"preset": "veryfast", "crf": "24", "threads": "1", "g": str(KEYFRAME_INTERVAL_FRAMES)}
        encoder = writer.add_stream("libx264", rate=FRAME_RATE_HZ, options=options)
        encoder.width, encoder.height, encoder.pix_fmt = video.width, video.height, "yuv420p"
        for frame in reader.decode(video):
            picture = frame.reformat(format="yuv420p")
            picture.pts, picture.time_base = frames, Fraction(1, FRAME_RATE_HZ)
            writer.mux(encoder.encode(picture))
            frames += 1
        writer.mux(encoder.encode())
    return frames


def main() -> int:
    """Encode the clip that the command line names."""
    parser = argparse.ArgumentParser(description="Encode the sample clip.")
    parser.add_argument("source", type=Path, help="vtest.avi of the OpenCV samples")
    parser.add_argument("target", type=Path, nargs="?", default=Path(__file__).with_name("plaza.mp4"))
    arguments = parser.parse_args()
    if not arguments.source.is_file():
        print(f"The source clip {arguments.source} does not exist; name the path of vtest.avi.", file=sys.stderr)
        return 2
    frames = encode(arguments.source, arguments.target)
    print(f"{arguments.target}: {frames} frames, {arguments.target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
