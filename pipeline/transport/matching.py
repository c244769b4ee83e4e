"""MQTT topics and topic filters: what is valid, what matches what."""

MAX_TOPIC_BYTES = 65_535


def topic_fault(topic: str) -> str | None:
    """Why nothing can be published to a topic, or None."""
    if "+" in topic or "#" in topic:
        return "a topic to publish to holds no wildcard"
    return _text_fault(topic)


def filter_fault(topic_filter: str) -> str | None:
    """Why a topic filter (also a shared one) cannot be subscribed to, or None."""
    if topic_filter.startswith("$share/"):
        _, _, shared = topic_filter.partition("/")
        group, _, topic_filter = shared.partition("/")
        if not group or "+" in group or "#" in group:
            return "a shared subscription is $share/group/filter"
    levels = topic_filter.split("/")
    for index, level in enumerate(levels):
        if "#" in level and (level != "#" or index != len(levels) - 1):
            return "'#' stands alone and last"
        if "+" in level and level != "+":
            return "'+' stands alone in its level"
    return _text_fault(topic_filter)


def split_share(topic_filter: str) -> tuple[str | None, str]:
    """The group of a shared subscription (None if it is not one) and the filter itself."""
    if not topic_filter.startswith("$share/"):
        return None, topic_filter
    _, group, rest = topic_filter.split("/", 2)
    return group, rest


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter (not a shared one) matches a topic; a leading wildcard does not match ``$...``."""
    wanted, given = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in {"+", "#"}:
        return False
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        if index >= len(given) or level not in {"+", given[index]}:
            return False
    return len(wanted) == len(given)


def _text_fault(text: str) -> str | None:
    if not text:
        return "it is empty"
    if "\0" in text:
        return "it holds a NUL character"
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    return f"it has more than {MAX_TOPIC_BYTES} bytes" if length > MAX_TOPIC_BYTES else None
