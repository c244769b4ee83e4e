// What a camera learns: how far it is, which model looks, and how lessons, agreement, uplink and time have gone.

import { NONE, count, decimal, element, field, isolated, setChildren, setText } from "./dom.js";

const CURVE_EVERY_MS = 30000;
const CURVE_TIMEOUT_MS = 4000;
const WIDTH = 100;
const HEIGHT = 28;
const STAGES = new Map([
  ["collecting", ["calm", "collecting lessons"]],
  ["training", ["warn", "training"]],
  ["proving", ["warn", "proving a new model"]],
  ["learned", ["good", "model of its own"]],
  ["general", ["calm", "general model"]],
]);
const shares = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const share = (value) => (value === null ? NONE : shares.format(value));
const CURVES = [
  { name: "lessons", label: "lessons", show: count },
  { name: "agreement", label: "agreement, F1", show: share },
  { name: "uplink_kbit_s", label: "uplink, kbit/s", show: decimal },
  { name: "look_ms", label: "a look, ms", show: decimal },
];

export class LearningPanel {
  constructor(root) {
    this.root = root.querySelector(".learning");
    this.fetchedAt = -Infinity;
  }

  show(camera) {
    const state = camera.learning ?? null;
    this.root.hidden = state === null;
    if (state === null) return;
    const [tone, text] = STAGES.get(state.stage) ?? ["calm", state.stage];
    this.root.querySelector(".learning-stage").dataset.tone = tone;
    setText(field(this.root, "learning-stage"), text);
    setText(field(this.root, "learning-left"), state.left_s === null ? "" : `about ${span(state.left_s)} left`);
    this.#bar(state.progress);
    setText(field(this.root, "learning-words"), state.in_words);
    setChildren(field(this.root, "learning-facts"), facts(state), ([name, value]) => {
      const pair = element("div");
      const shown = element("dd");
      shown.append(isolated(value));
      pair.append(element("dt", "", name), shown);
      return pair;
    });
    this.root.querySelector(".learning-last").hidden = state.last === "";
    setText(field(this.root, "learning-last"), state.last);
    this.#refresh(camera.name);
  }

  #bar(progress) {
    const bar = field(this.root, "learning-bar");
    bar.hidden = progress === null;
    if (progress === null) return;
    bar.setAttribute("aria-valuenow", String(Math.round(progress * 100)));
    if (bar.firstElementChild === null) bar.append(element("i"));
    bar.firstElementChild.style.width = `${progress * 100}%`;
  }

  async #refresh(name) {
    if (performance.now() - this.fetchedAt < CURVE_EVERY_MS) return;
    this.fetchedAt = performance.now();
    try {
      const response = await fetch(`/api/cameras/${encodeURIComponent(name)}/learning`, {
        cache: "no-store",
        signal: AbortSignal.timeout(CURVE_TIMEOUT_MS),
      });
      if (response.ok) this.#curves(await response.json());
    } catch {
      // The status poll tells of a lost connection; the curves come with their next turn.
    }
  }

  #curves(points) {
    const enough = points.length > 1;
    setChildren(field(this.root, "curves"), enough ? CURVES.map((curve) => [curve.name, points]) : [], ([name]) =>
      curveItem(CURVES.find((curve) => curve.name === name), points));
    const [first, last] = [points.at(0), points.at(-1)];
    const seconds = enough ? (Date.parse(last.at) - Date.parse(first.at)) / 1000 : 0;
    setText(field(this.root, "learning-span"), enough ? `the last ${span(seconds)}${changes(points)}` : "");
  }
}

function facts(state) {
  const found = [["lessons", count(state.lessons)], ["agreement", share(state.agreement)]];
  if (state.way !== null) found.push(["way", state.way === "own" ? "a small model of its own" : "the general model adapted"]);
  if (state.current) found.push(["looks now", state.current]);
  if (state.candidate !== null) found.push(["being proven", state.candidate]);
  return found;
}

function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function changes(points) {
  return points.some((point, i) => i > 0 && point.model !== points[i - 1].model) ? "; dashed where the model changed" : "";
}

function curveItem({ name, label, show }, points) {
  const item = element("li");
  const values = points.map((point) => point[name]);
  const known = values.filter((value) => value !== null);
  const most = Math.max(...known, 1e-9);
  const least = name === "agreement" ? Math.min(...known, most) * 0.95 : 0;
  const x = (i) => ((i / (points.length - 1)) * WIDTH).toFixed(2);
  const y = (value) => (HEIGHT - ((value - least) / Math.max(most - least, 1e-9)) * HEIGHT).toFixed(2);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  drawing.setAttribute("aria-label", `${label}: ${show(known.at(0) ?? null)} to ${show(known.at(-1) ?? null)}`);
  drawing.append(svg("path", { class: "base", d: `M0 ${HEIGHT}H${WIDTH}` }));
  points.forEach((point, i) => {
    if (i > 0 && point.model !== points[i - 1].model) drawing.append(svg("path", { class: "model", d: `M${x(i)} 0V${HEIGHT}` }));
  });
  drawing.append(svg("path", { d: line(values, x, y) }));
  item.append(element("span", "muted", label), element("b", "", show(values.at(-1))), drawing);
  return item;
}

// A line with gaps where a value is not known.
function line(values, x, y) {
  let begun = false;
  return values.map((value, i) => {
    const step = value === null ? "" : `${begun ? "L" : "M"}${x(i)} ${y(value)}`;
    begun = value !== null;
    return step;
  }).join("");
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
