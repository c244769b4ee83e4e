"""What a JPEG says of itself, without decoding it."""

_TAIL_BYTES = 4096


def jpeg_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """Read (width, height) in pixels from a JPEG's header without decoding it.

    None where it is no JPEG, has no size, or lacks the end marker (zero padding after it is allowed): a picture
    that was cut short decodes without an error, to a picture that is wrong.
    """
    view = memoryview(data)
    if len(view) < 4 or bytes(view[:2]) != b"\xff\xd8":
        return None
    if not bytes(view[-_TAIL_BYTES:]).rstrip(b"\0").endswith(b"\xff\xd9"):
        return None
    at = 2
    while at + 4 <= len(view) and view[at] == 0xFF:
        marker = view[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:  # markers without a body
            at += 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _frame_header_size(view[at + 4 :])
        if marker in {0xD9, 0xDA}:  # end, or picture data before any frame header
            return None
        at += 2 + int.from_bytes(view[at + 2 : at + 4], "big")
    return None


def _frame_header_size(body: memoryview) -> tuple[int, int] | None:
    if len(body) < 5:
        return None
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    return (width, height) if width and height else None
