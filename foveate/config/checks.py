"""What only shows when several keys are looked at together. Pure."""

from collections.abc import Iterator

from edge_agent.status.access import check_binding
from foveate.config.camera import CameraKeys, privacy
from foveate.config.faults import Fault, Loc
from foveate.config.models import BrokerKeys, Configuration, WebKeys
from pipeline.errors import ConfigError
from pipeline.policies.restraint import Action
from pipeline.transport.url import parse_broker_url


def cross_faults(configuration: Configuration) -> Iterator[Fault]:
    """The faults of a configuration whose single values are all valid."""
    yield from _broker(configuration.broker)
    if configuration.web.enabled:
        yield from _web(configuration.web)
        yield from _ports(configuration)
    served = [model.name for model in configuration.worker.models or ()]
    yield from _repeated(served, "worker", "models")
    yield from _repeated([camera.name for camera in configuration.cameras], "cameras")
    margin_ms = configuration.agent.settle_margin_ms
    yield from _camera(("defaults",), configuration.defaults, margin_ms)
    for number, camera in enumerate(configuration.cameras):
        yield from _camera(("cameras", number), camera, margin_ms)
        yield from _privacy(("cameras", number), camera)
    if configuration.models.edge_light is None:
        yield from _light_model(configuration)
    if configuration.learn.enabled:
        yield from _learn(configuration)
    if configuration.agent.state_dir is None:
        yield from _lessons(configuration)


def _learn(configuration: Configuration) -> Iterator[Fault]:
    loc = ("learn", "enabled")
    if configuration.agent.state_dir is None:
        yield Fault(loc, "is true, but there is no folder for what is learned", "add agent.state_dir")
    if configuration.cameras and not any(camera.lessons.enabled for camera in configuration.cameras):
        yield Fault(loc, "is true, but no camera keeps lessons", "set lessons.enabled in defaults, or of a camera")


def _repeated(names: list[str], *loc: str) -> Iterator[Fault]:
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Fault((*loc, number, "name"), f"is {name!r} for a second time", "give each a name of its own")


def _two_secrets(loc: Loc, name: str, given: object, file: object) -> Iterator[Fault]:
    if given is not None and file is not None:
        yield Fault((*loc, f"{name}_file"), f"is given beside {name}", "keep one of the two")


def _broker(broker: BrokerKeys) -> Iterator[Fault]:
    loc = ("broker",)
    yield from _two_secrets(loc, "password", broker.password, broker.password_file)
    if broker.embedded.port == broker.embedded.port_v3:
        yield Fault((*loc, "embedded", "port_v3"), f"is {broker.embedded.port} as port is", "choose another port")
    has_password = broker.password is not None or broker.password_file is not None
    if has_password and broker.username is None:
        yield Fault((*loc, "password" if broker.password else "password_file"), "has no username", "add username")
    if broker.url is None:
        if broker.username is not None:
            yield Fault((*loc, "username"), "is for a broker of your own, but there is no url", "add url")
        if broker.tls is not None:
            yield Fault((*loc, "tls"), "is for a broker of your own, but there is no url", "add url")
        return
    url = parse_broker_url(broker.url)
    if url.username is not None and broker.username is not None:
        yield Fault((*loc, "username"), "is given beside a user in url", "keep one of the two")
    if broker.tls is not None and not url.tls:
        yield Fault((*loc, "tls"), "is given, but url has no TLS", "write the url with mqtts://, or leave tls out")
    if broker.tls is not None and broker.tls.key_file is not None and broker.tls.cert_file is None:
        yield Fault((*loc, "tls", "key_file"), "has no certificate", "add cert_file")


def _web(web: WebKeys) -> Iterator[Fault]:
    yield from _two_secrets(("web",), "token", web.token, web.token_file)
    try:
        check_binding(web.host, "given" if web.token or web.token_file else None)
    except ConfigError:
        yield Fault(
            ("web", "host"),
            f"is {web.host!r}, which opens the status page to the network without a token",
            "set token or token_file, or bind it to 127.0.0.1",
        )


def _ports(configuration: Configuration) -> Iterator[Fault]:
    embedded, port = configuration.broker.embedded, configuration.web.port
    if configuration.broker.url is None and port and port in (embedded.port, embedded.port_v3):
        yield Fault(("web", "port"), f"is {port}, where the embedded broker listens", "choose another port")


def _camera(loc: Loc, camera: CameraKeys, margin_ms: float) -> Iterator[Fault]:
    yield from _two_secrets(loc, "password", camera.password, camera.password_file)
    if camera.deadline_ms <= margin_ms:
        yield Fault(
            (*loc, "deadline_ms"),
            f"is {camera.deadline_ms:g}",
            f"it must be above {margin_ms:g} ms, for so long before it an answer is final (agent.settle_margin_ms)",
        )
    change, tracker, candidates, mosaic = camera.change, camera.tracker, camera.candidates, camera.mosaic
    for names, least, most in (
        (("reconnect_first_s", "reconnect_most_s"), camera.reconnect_first_s, camera.reconnect_most_s),
        (("change", "least_levels", "most_levels"), change.least_levels, change.most_levels),
        (("tracker", "low_score", "high_score"), tracker.low_score, tracker.high_score),
        (("candidates", "sure_below", "sure_above"), candidates.sure_below, candidates.sure_above),
        (("mosaic", "least_scale", "scale"), mosaic.least_scale, mosaic.scale),
    ):
        if least > most:
            yield Fault((*loc, *names[:-1]), f"is {least:g}", f"it must be at most {names[-1]}, {most:g}")
    yield from _mosaic((*loc, "mosaic"), camera)
    yield from _rates(loc, camera)
    yield from _budget((*loc, "budget"), camera)


def _privacy(loc: Loc, camera: CameraKeys) -> Iterator[Fault]:
    """Masks are each camera's own, so that ``defaults`` may ask for masked crops without any."""
    private = privacy(camera)
    if private.masks and not camera.masks:
        names = ", ".join(sorted(private.beyond_device & private.masked_only))
        yield Fault((*loc, "masked_only"), f"is [{names}], but there is nothing to paint over", "add masks")
    if camera.mode == "cloud_only" and not private.beyond_device:
        yield Fault((*loc, "mode"), "is cloud_only, but tiers allows no tier but the device", "choose edge_only")
    elif not private.whole_frames and private.beyond_device:
        for keys, value, whole in (
            (("mode",), camera.mode, "cloud_only"),
            (("offload", "policy"), camera.offload.policy, "always"),
        ):
            if value == whole:
                what = f"is {value}, which sends whole frames, but no tier may have them"
                yield Fault((*loc, *keys), what, "choose adaptive, or leave a tier out of masked_only")


def _rates(loc: Loc, camera: CameraKeys) -> Iterator[Fault]:
    """The lowest rates. A default above ``sample_fps`` has no effect: whoever asks for a slow camera sets one key."""
    for names, group in ((("sample_fps_least",), camera), (("budget", "least_sample_fps"), camera.budget)):
        least, default = getattr(group, names[-1]), type(group).model_fields[names[-1]].default
        if least > camera.sample_fps and least != default:
            yield Fault((*loc, *names), f"is {least:g}", f"it must be at most sample_fps, {camera.sample_fps:g}")


def _budget(loc: Loc, camera: CameraKeys) -> Iterator[Fault]:
    budget, within_ms = camera.budget, camera.budget.sla.within_ms
    if budget.sustained_s > budget.window_s:
        yield Fault(
            (*loc, "sustained_s"), f"is {budget.sustained_s:g}", f"it must be at most window_s, {budget.window_s:g}"
        )
    if within_ms is not None and within_ms > camera.deadline_ms:
        yield Fault(
            (*loc, "sla", "within_ms"), f"is {within_ms:g}", f"it must be at most deadline_ms, {camera.deadline_ms:g}"
        )


def _light_model(configuration: Configuration) -> Iterator[Fault]:
    cameras = [(("cameras", number), camera) for number, camera in enumerate(configuration.cameras)]
    for loc, camera in [(("defaults",), configuration.defaults), *cameras]:
        for segment, actions in camera.budget.actions:
            if Action.LIGHT_MODEL in actions:
                yield Fault(
                    (*loc, "budget", "actions", segment),
                    "names light_model, but there is none",
                    "add models.edge_light",
                )


def _lessons(configuration: Configuration) -> Iterator[Fault]:
    cameras = [(("cameras", number), camera) for number, camera in enumerate(configuration.cameras)]
    for loc, camera in [(("defaults",), configuration.defaults), *cameras]:
        if camera.lessons.enabled:
            yield Fault(
                (*loc, "lessons", "enabled"), "is true, but there is no folder to keep them", "add agent.state_dir"
            )


def _mosaic(loc: Loc, camera: CameraKeys) -> Iterator[Fault]:
    mosaic = camera.mosaic
    widths, step = mosaic.widths_px, mosaic.step_px
    if sorted(set(widths)) != list(widths) or any(width < step or width % step for width in widths):
        yield Fault((*loc, "widths_px"), f"is {list(widths)}", f"it must be rising multiples of step_px, {step}")
    if mosaic.most_height_px < step or mosaic.most_height_px % step:
        yield Fault(
            (*loc, "most_height_px"), f"is {mosaic.most_height_px}", f"it must be a multiple of step_px, {step}"
        )
