// Polls the agent's status and keeps the page true: what is not fresh is never shown as live.

import { showAlerts } from "./alerts.js";
import { CameraCard } from "./camera.js";
import { NONE, ago, count, decimal, element, field, isolated, pill, rowHead, setChildren, setText, words } from "./dom.js";
import { showQueues } from "./queues.js";
import { showServing } from "./serving.js";
import { showTiers } from "./tiers.js";

const POLL_MS = 1000;
const POLL_TIMEOUT_MS = 3000;
const LONGEST_WAIT_MS = 8000;
const PICTURE_MS = 500;
const CIRCUIT = new Map([
  ["closed", ["good", "cloud in use"]],
  ["probing", ["warn", "cloud on probe"]],
  ["open", ["bad", "cloud unreachable, edge answers"]],
  ["off", ["calm", "cloud switched off"]],
]);

const byId = (id) => document.getElementById(id);
const cards = new Map();
let lastFresh = null;
let failures = 0;
let polling = false;
let timer = null;

const onScreen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    for (const card of cards.values()) if (card.root === entry.target) card.visible = entry.isIntersecting;
  }
});

function setLink(state, message = "") {
  document.body.dataset.link = state;
  byId("lost").hidden = message === "";
  setText(byId("lost"), message);
  if (state !== "live") for (const card of cards.values()) card.forgetState();
  document.title = state === "lost" ? "Connection lost · Foveate" : "Foveate";
}

function showHeader(status) {
  setText(field(document, "agent"), status.agent);
  setText(field(document, "version"), ` ${status.version}, up ${ago(status.started, status.now)}`);
  byId("broker").dataset.tone = status.broker_connected ? "good" : "bad";
  const why = status.broker_reason ? `: ${status.broker_reason}` : "";
  setText(field(document, "broker-state"), status.broker_connected ? `broker ${status.broker}` : `broker lost${why}`);
  const [tone, text] = cloudBadge(status);
  byId("circuit").dataset.tone = tone;
  setText(field(document, "circuit-state"), text);
  byId("circuit").title = `circuit ${status.cloud}`;
  byId("not-ready").hidden = status.ready;
  setText(byId("not-ready"), status.ready ? "" : `Not ready yet: ${status.ready_reason}`);
}

/** The circuit says what became of what was asked; while nobody can be asked it says nothing. */
function cloudBadge(status) {
  if (status.cloud === "closed" && !status.broker_connected) return CIRCUIT.get("open");
  if (status.cloud === "closed" && !status.workers.some((worker) => worker.online)) return ["bad", "no worker, edge answers"];
  return CIRCUIT.get(status.cloud) ?? ["warn", `cloud ${words(status.cloud)}`];
}

function showCameras(status) {
  const names = new Set(status.cameras.map((camera) => camera.name));
  for (const [name, card] of cards) {
    if (names.has(name)) continue;
    onScreen.unobserve(card.root);
    card.root.remove();
    cards.delete(name);
  }
  status.cameras.forEach((camera, i) => {
    let card = cards.get(camera.name);
    if (card === undefined) {
      card = new CameraCard(byId("camera-template"));
      cards.set(camera.name, card);
      onScreen.observe(card.root);
    }
    const place = byId("cameras").children[i];
    if (place !== card.root) byId("cameras").insertBefore(card.root, place ?? null);
    card.show(camera, status.now);
  });
  byId("no-cameras").hidden = status.cameras.length > 0;
  setText(byId("no-cameras"), "This agent has no camera.");
}

function showWorkers(status) {
  byId("cloud").hidden = false;
  byId("no-workers").hidden = status.workers.length > 0;
  document.querySelector(".workers").hidden = status.workers.length === 0;
  setChildren(byId("models"), Object.entries(status.models), ([role, name]) => {
    const pair = element("div");
    pair.append(element("dt", "", role), element("dd", "", name));
    return pair;
  });
  setChildren(byId("workers"), status.workers, workerRow);
  byId("ways").hidden = status.paths.length === 0;
  setChildren(byId("ways"), status.paths.map(wayText), (text) => element("span", "", text));
}

function wayText(path) {
  const parts = ["up", "queue", "cloud", "down"].map((part) => `${part} ${decimal(path[`${part}_ms`])}`).join(" + ");
  const sum = path.up_ms + path.queue_ms + path.cloud_ms + path.down_ms;
  const mbits = path.bandwidth_kbit_s === null ? NONE : decimal(path.bandwidth_kbit_s / 1000);
  return `Way to ${path.tier}: ${parts} = ${decimal(sum)} ms, ${decimal(path.tail_ms)} ms in a bad case; `
    + `the link carries about ${mbits} Mbit/s`;
}

function workerRow(worker) {
  const row = element("tr");
  const state = element("td");
  state.append(pill(worker.online ? "good" : "bad", worker.online ? "online" : "offline"));
  if (worker.reason) state.append(" ", isolated(worker.reason, "muted"));
  const models = element("td");
  models.append(isolated(worker.models.join(", ") || NONE));
  const tier = element("td", "", worker.tier);
  if (worker.location) tier.append(", ", isolated(worker.location));
  row.append(
    rowHead(worker.worker),
    state,
    tier,
    models,
    element("td", "num", count(worker.queue_length)),
    element("td", "num", decimal(worker.wait_ms)),
    element("td", "num", decimal(worker.infer_ms_p95)),
  );
  return row;
}

function show(status) {
  lastFresh = Date.now();
  setText(field(document, "fresh"), `live, ${new Date(lastFresh).toLocaleTimeString("en-GB")}`);
  showHeader(status);
  showCameras(status);
  showAlerts(status);
  showWorkers(status);
  showTiers(status);
  showServing(status);
  showQueues(status);
  setLink("live");
}

function showLost(problem) {
  const time = lastFresh === null ? "" : new Date(lastFresh).toLocaleTimeString("en-GB");
  const old = time ? ` The numbers below are from ${time} and are not live.` : "";
  setText(field(document, "fresh"), time ? `last heard ${time}` : "");
  setLink("lost", problem === "refused"
    ? `The agent asks for its access token: open this page once as /?token=… with it.${old}`
    : `Connection to the agent lost, retrying.${old}`);
}

async function readStatus() {
  const response = await fetch("/api/status", { cache: "no-store", signal: AbortSignal.timeout(POLL_TIMEOUT_MS) });
  if (response.status === 401) throw new Error("refused");
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

async function poll() {
  clearTimeout(timer);
  if (polling || document.hidden) return;
  polling = true;
  const answer = await readStatus().catch((error) => error);
  polling = false;
  failures = answer instanceof Error ? failures + 1 : 0;
  timer = setTimeout(poll, Math.min(LONGEST_WAIT_MS, POLL_MS * 2 ** Math.max(0, failures - 1)));
  if (answer instanceof Error) showLost(answer.message);
  else show(answer);
}

function refreshPictures() {
  if (document.hidden || document.body.dataset.link !== "live") return;
  for (const card of cards.values()) if (card.wantsPicture()) card.refreshPicture();
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  if (lastFresh !== null && Date.now() - lastFresh > POLL_TIMEOUT_MS) setLink("waiting");
  poll();
});
setInterval(refreshPictures, PICTURE_MS);
poll();
