// One camera's card.

import { NONE, ago, count, decimal, element, field, isolated, percent, setChildren, setText, words } from "./dom.js";
import { LearningPanel } from "./learning.js";
import { ordered, showAttainment, showBreaches, showLatency } from "./latency.js";

const ORIGINS = new Map([
  ["cloud", "the larger model saw the whole frame"],
  ["fused", "the larger model saw crops of it"],
  ["edge", "the edge's own answer"],
  ["edge_timeout", "the cloud did not answer by the deadline"],
  ["edge_shed", "a second look was wanted and refused"],
  ["carried", "moved here along the tracks, not analysed"],
]);
const TONES = new Map([
  ["live", "good"],
  ["connecting", "calm"],
  ["waiting_keyframe", "calm"],
  ["finished", "calm"],
  ["stale", "warn"],
  ["frozen", "warn"],
  ["dark", "warn"],
]);
const DELIVERING = new Set(["live", "dark", "frozen"]);
const PICTURE_TIMEOUT_MS = 4000;

const sum = (numbers) => Object.values(numbers).reduce((total, n) => total + n, 0);

// What the camera holds to, where it is anything but the usual.
function steering(state) {
  if (state === null) return "";
  if (state.route === "cloud") return "cloud looks first";
  return state.mode === "open" ? "" : state.mode;
}

export class CameraCard {
  constructor(template) {
    this.root = template.content.firstElementChild.cloneNode(true);
    this.canvas = this.root.querySelector("canvas");
    this.visible = true;
    this.camera = null;
    this.etag = null;
    this.pictureSeq = null;
    this.loading = false;
    this.learning = new LearningPanel(this.root);
  }

  show(camera, now) {
    this.camera = camera;
    this.#state(camera, now);
    this.#facts(camera);
    showAttainment(this.root, camera.attainment ?? null);
    showLatency(this.root, camera);
    showBreaches(this.root, camera, now);
    this.#frames(camera);
    this.learning.show(camera);
    this.#pictureNote();
  }

  // The agent is silent: what was known of the camera is not its state now.
  forgetState() {
    this.#text("state", "not known");
    this.root.querySelector(".state").dataset.tone = "calm";
  }

  #text(name, text) {
    setText(field(this.root, name), text);
  }

  #state(camera, now) {
    this.#text("title", camera.title || camera.name);
    this.#text("name", camera.name);
    this.#text("state", words(camera.state));
    this.#text("reason", camera.reason);
    this.#text("since", ago(camera.since, now));
    this.root.querySelector(".state").dataset.tone = TONES.get(camera.state) ?? "bad";
    setChildren(field(this.root, "counts"), Object.entries(camera.counts), ([label, n]) => {
      const chip = element("li", "chip");
      chip.append(element("b", "", count(n)), " ", isolated(label));
      return chip;
    });
    field(this.root, "counts").dataset.empty = camera.picture_seq === null ? NONE : "nothing";
  }

  #facts(camera) {
    this.#text("hit", percent(camera.deadline_hit_ratio));
    this.#unit("lambda", percent(camera.lambda_edge), steering(camera.steering));
    this.#unit("p99", decimal(camera.latency.p99_ms), `of ${decimal(camera.deadline_ms)} ms`);
    this.#unit("uplink", decimal(camera.uplink_kbit_s), "kbit/s");
    this.#unit("capture-fps", decimal(camera.capture_fps), "per s");
    this.#unit("analysed-fps", decimal(camera.analysed_fps), "per s");
  }

  #unit(name, value, unit) {
    setChildren(field(this.root, name), [value, unit], (text, i) => (i ? element("small", "", ` ${text}`) : text));
  }

  #frames(camera) {
    const answered = sum(camera.finals);
    const dropped = sum(camera.drops);
    this.#text("captured", count(camera.captured));
    this.#text("answered", count(answered));
    this.#text("dropped", count(dropped));
    this.#text("in-flight", count(camera.in_flight));
    const adds = camera.captured === answered + dropped + camera.in_flight;
    this.#text("equals", adds ? "=" : "≠");
    field(this.root, "equals").classList.toggle("bad", !adds);

    const origins = ordered(camera.finals, ORIGINS.keys());
    setChildren(field(this.root, "stack"), origins.filter(([, n]) => n > 0), ([name, n]) => {
      const part = element("i");
      part.dataset.origin = name;
      part.style.flexGrow = n;
      return part;
    });
    setChildren(field(this.root, "origins"), origins, ([name, n]) => {
      const item = element("li");
      item.title = ORIGINS.get(name) ?? "";
      const swatch = element("i", "swatch");
      swatch.dataset.origin = name;
      item.append(swatch, isolated(words(name)), element("b", "", count(n)));
      return item;
    });
    const drops = Object.entries(camera.drops).filter(([, n]) => n > 0);
    this.#text("drops", drops.map(([reason, n]) => `${words(reason)} ${count(n)}`).join(", ") || "none");
  }

  #pictureNote() {
    const { camera } = this;
    const has = this.pictureSeq !== null;
    this.canvas.hidden = !has;
    field(this.root, "no-picture").hidden = has;
    this.#text("no-picture", `No picture yet: ${words(camera.state)}`);
    const old = has && !DELIVERING.has(camera.state);
    field(this.root, "picture-note").hidden = !old;
    this.#text("picture-note", "last picture");
    this.root.querySelector(".view").classList.toggle("old", old);
    this.canvas.setAttribute("aria-label", `Newest picture of ${camera.title || camera.name}, frame ${this.pictureSeq}`);
  }

  // A newer frame than the snapshot's may be there on a camera that delivers: then the server is asked, and it sends
  // the picture only if it is another one.
  wantsPicture() {
    const { camera } = this;
    if (!this.visible || this.loading || camera === null || camera.picture_seq === null) return false;
    return DELIVERING.has(camera.state) || camera.picture_seq !== this.pictureSeq;
  }

  async refreshPicture() {
    this.loading = true;
    try {
      const response = await fetch(`/api/cameras/${encodeURIComponent(this.camera.name)}/picture.jpg`, {
        cache: "no-store",
        headers: this.etag === null ? {} : { "If-None-Match": this.etag },
        signal: AbortSignal.timeout(PICTURE_TIMEOUT_MS),
      });
      if (response.status !== 200) return;
      const bitmap = await createImageBitmap(await response.blob());
      this.etag = response.headers.get("etag");
      this.pictureSeq = Number(response.headers.get("x-foveate-seq"));
      this.canvas.width = bitmap.width;
      this.canvas.height = bitmap.height;
      this.canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      this.#pictureNote();
    } catch {
      // The status poll tells of a lost connection; the next picture is tried in half a second.
    } finally {
      this.loading = false;
    }
  }
}
