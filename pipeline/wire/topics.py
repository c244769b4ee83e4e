"""Every MQTT topic that Foveate uses. Names that come from outside become topic levels only after a check."""

import re

from pipeline.errors import ConfigError

PREFIX = "foveate"
WIRE = f"{PREFIX}/v1"
MAX_LEVEL_BYTES = 64
MAX_TOPIC_BYTES = 256  # what the strictest hosted brokers take
RESERVED_CAMERAS = frozenset({"v1", "agent"})
_FORBIDDEN = re.compile(r"[/+#\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def level_fault(name: str) -> str | None:
    """Why a name cannot be one topic level, or None."""
    if not name:
        return "it is empty"
    if _FORBIDDEN.search(name):
        return "it holds '/', '+', '#' or a control character"
    if name.startswith("$"):
        return "it begins with '$'"
    if len(name.encode()) > MAX_LEVEL_BYTES:
        return f"it has more than {MAX_LEVEL_BYTES} bytes"
    return None


def valid_level(name: str) -> bool:
    """Whether a name can be one topic level."""
    return level_fault(name) is None


def camera_fault(name: str) -> str | None:
    """Why a name cannot be a camera's, or None."""
    return "it is reserved" if name in RESERVED_CAMERAS else level_fault(name)


def as_level(text: str) -> str:
    """Turn any text (a label of an unknown model, say) into a valid topic level; valid ones stay as they are."""
    level = _FORBIDDEN.sub("_", text)
    if level.startswith("$"):
        level = "_" + level[1:]
    return level.encode()[:MAX_LEVEL_BYTES].decode(errors="ignore") or "_"


def _level(what: str, name: str) -> str:
    fault = camera_fault(name) if what == "camera" else level_fault(name)
    if fault:
        raise ConfigError(
            f"The {what} name {name[:80]!r} cannot be part of an MQTT topic: {fault}; choose another name."
        )
    return name


# Between edge and worker.


def target(tier: str, location: str = "") -> str:
    """The topic level of the workers of a tier, or of those of them at one location: ``edge``, ``edge@hall``.

    Any location is made to fit.
    """
    return as_level(f"{tier}@{location}") if location else tier


def targets(tier: str, location: str) -> tuple[str, ...]:
    """The levels that a worker serves: its own, and that of its whole tier, for agents that know no more than that."""
    return (target(tier, location), tier) if location else (tier,)


def request(target: str, model: str) -> str:
    """Where requests for a model are sent. Raises ConfigError on a name that is no topic level."""
    return f"{WIRE}/req/{_level('target', target)}/{_level('model', model)}"


def request_share(group: str, target: str, model: str) -> str:
    """The shared subscription of the workers of a group. Raises ConfigError.

    Its name tells target and model apart too: rumqttd, the embedded broker, knows a share by its name alone, and hands
    what is for one filter to those who share another one by the same name, where it is lost.
    """
    return f"$share/{_level('group', group)}-{target}-{model}/{request(target, model)}"


def reply(agent: str) -> str:
    """The Response Topic of an agent. Raises ConfigError."""
    return f"{WIRE}/rep/{_level('agent', agent)}"


def cancel(target: str, agent: str) -> str:
    """Where an agent says which of its requests to a target it has no use for any more. Raises ConfigError.

    The agent is a level of its own, so that a broker can see to it that nobody cancels what another asked.
    """
    return f"{WIRE}/cancel/{_level('target', target)}/{_level('agent', agent)}"


def cancels(target: str) -> str:
    """The filter for what all agents cancel at a target: no shared one, it is for each of its workers."""
    return f"{WIRE}/cancel/{_level('target', target)}/+"


def worker(name: str) -> str:
    """The retained state of a worker. Raises ConfigError."""
    return f"{WIRE}/worker/{_level('worker', name)}"


ANY_WORKER = f"{WIRE}/worker/+"


def model(name: str) -> str:
    """The retained, signed release of a model. Raises ConfigError."""
    return f"{WIRE}/model/{_level('model', name)}"


ANY_MODEL = f"{WIRE}/model/+"


def model_chunk(model: str, sha256: str, number: int) -> str:
    """One retained part of a model's file, counted from 0. Raises ConfigError."""
    return f"{WIRE}/model/{_level('model', model)}/chunk/{_level('file', sha256)}/{number}"


def rollout(agent: str, camera: str) -> str:
    """The retained state of what is released to a camera. Raises ConfigError."""
    return f"{WIRE}/rollout/{_level('agent', agent)}/{_level('camera', camera)}"


def rollout_command(agent: str, camera: str) -> str:
    """Where a command to a camera's release is sent. Raises ConfigError."""
    return f"{rollout(agent, camera)}/set"


ANY_ROLLOUT = f"{WIRE}/rollout/+/+"


def config(agent: str) -> str:
    """The retained configuration push to an agent. Raises ConfigError."""
    return f"{WIRE}/config/{_level('agent', agent)}"


# What subscribers see.


def result(camera: str) -> str:
    """The results of a camera. Raises ConfigError."""
    return f"{PREFIX}/{_level('camera', camera)}/result"


ANY_RESULT = f"{PREFIX}/+/result"


def event(camera: str) -> str:
    """The life cycle of a camera's objects. Raises ConfigError."""
    return f"{PREFIX}/{_level('camera', camera)}/event"


def count(camera: str, label: str) -> str:
    """The retained number of objects with a label; any label is made to fit. Raises ConfigError on the camera."""
    return f"{PREFIX}/{_level('camera', camera)}/count/{as_level(label)}"


def zone_count(camera: str, zone: str, label: str) -> str:
    """The retained number of objects with a label in a zone. Raises ConfigError on camera or zone."""
    return f"{PREFIX}/{_level('camera', camera)}/zone/{_level('zone', zone)}/count/{as_level(label)}"


def alert(camera: str) -> str:
    """Latency budgets breached or cleared. Raises ConfigError."""
    return f"{PREFIX}/{_level('camera', camera)}/alert"


ANY_ALERT = f"{PREFIX}/+/alert"


def state(camera: str) -> str:
    """The retained state of a camera. Raises ConfigError."""
    return f"{PREFIX}/{_level('camera', camera)}/state"


def command(camera: str, what: str) -> str:
    """Where a command to a camera is sent. Raises ConfigError."""
    return f"{PREFIX}/{_level('camera', camera)}/set/{_level('command', what)}"


def commands(camera: str) -> str:
    """The filter for all commands to a camera. Raises ConfigError."""
    return f"{PREFIX}/{_level('camera', camera)}/set/+"


def available(agent: str) -> str:
    """The retained ``online`` or ``offline`` of an agent. Raises ConfigError."""
    return f"{PREFIX}/agent/{_level('agent', agent)}/available"


def discovery(component: str, object_id: str) -> str:
    """The retained Home Assistant discovery message of one entity. Raises ConfigError."""
    return f"homeassistant/{_level('component', component)}/{_level('object id', object_id)}/config"
