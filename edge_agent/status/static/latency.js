// Latency taken apart: the promise and whether it is kept, the segments against their budgets, and what is breached.

import { NONE, ago, count, decimal, element, field, isolated, percent, percentUp, setChildren, setText, words } from "./dom.js";

const SEGMENTS = ["edge", "network", "queue", "cloud"]; // as a frame passes them

// Known names first and in order, then whatever else there is.
export function ordered(counts, known) {
  const names = [...known].filter((name) => Object.hasOwn(counts, name));
  return [...names, ...Object.keys(counts).filter((name) => !names.includes(name))].map((name) => [name, counts[name]]);
}

export function showAttainment(root, attainment) {
  root.querySelector(".sla").hidden = attainment === null;
  if (attainment === null) return;
  const { accepted, target, share, met } = attainment;
  setText(field(root, "sla"), `Analysed in time: ${decimalOrWhole(target * 100)} % within ${decimalOrWhole(attainment.within_ms)} ms`);
  const verdict = root.querySelector(".sla-verdict");
  verdict.dataset.tone = met === null ? "calm" : met ? "good" : "bad";
  setText(field(root, "sla-verdict"), met === null ? "no frame yet" : met ? "met" : "missed");
  setText(field(root, "sla-share"), percent(share));
  const bar = field(root, "sla-bar");
  bar.style.setProperty("--target", `${target * 100}%`);
  const missed = accepted - attainment.hit_cloud - attainment.hit_edge;
  const parts = [["cloud", attainment.hit_cloud, "with the cloud"], ["edge", attainment.hit_edge, "by the edge"],
    ["missed", missed, "not in time"]];
  setChildren(bar, parts.filter(([, n]) => n > 0), ([name, n]) => {
    const part = element("i");
    part.dataset.hit = name;
    part.style.width = `${(n / accepted) * 100}%`;
    return part;
  });
  setChildren(field(root, "sla-hits"), parts.map(([...part]) => [...part, accepted]), ([name, n, text, all]) => {
    const item = element("li");
    const swatch = element("i", "swatch");
    swatch.dataset.hit = name;
    item.title = `${count(n)} of ${count(all)} accepted frames`;
    const share = name === "missed" ? percentUp : percent;
    const shown = all ? share(n / all) : NONE;
    item.append(swatch, element("b", "", shown), ` ${text}`);
    return item;
  });
}

export function showLatency(root, camera) {
  const deadline = camera.deadline_ms;
  const budgets = camera.budgets_ms ?? {};
  const breached = new Set((camera.breaches ?? []).map((breach) => breach.segment));
  const rows = [{ name: "end to end", times: camera.latency, from: 0, limit: deadline, whole: true, breached: false }];
  let from = 0; // the budgets one after the other are what the deadline is made of
  for (const [name, times] of ordered(camera.segments, SEGMENTS)) {
    const limit = Object.hasOwn(budgets, name) ? budgets[name] : null;
    rows.push({ name, times, from, limit, whole: false, breached: breached.has(name) });
    from += limit ?? 0;
  }
  const worst = Math.max(from, ...rows.map((row) => row.from + (row.times.p99_ms ?? 0)));
  const full = Math.max(deadline * 1.25, worst * 1.05);
  setText(field(root, "deadline"), `deadline ${decimal(deadline)}`);
  root.querySelector(".latency").style.setProperty("--deadline", `${(deadline / full) * 100}%`);
  setChildren(field(root, "latency"), rows.map((row) => ({ ...row, full })), latencyRow);
}

function latencyRow({ name, times, from, limit, whole, breached, full }) {
  const row = element("tr");
  const head = element("th");
  head.scope = "row";
  head.append(isolated(words(name)));
  const track = element("td", "track");
  for (const [className, value] of [["p99", times.p99_ms], ["p50", times.p50_ms]]) {
    const bar = element("i", className);
    bar.style.width = `${((value ?? 0) / full) * 100}%`;
    track.append(bar);
  }
  track.style.setProperty("--from", `${(from / full) * 100}%`);
  if (limit !== null) track.style.setProperty("--limit", `${((from + limit) / full) * 100}%`);
  track.classList.toggle("limited", limit !== null);
  const over = limit !== null && times.p99_ms !== null && times.p99_ms > limit;
  row.classList.toggle("late", breached || (over && whole));
  row.classList.toggle("over", over);
  const p99 = element("td", "num", decimal(times.p99_ms));
  if (over) p99.title = whole ? "over the deadline" : "over the budget";
  row.append(head, track, element("td", "num", decimal(times.p50_ms)), p99);
  row.append(element("td", "num limit", decimalOrWhole(limit)));
  return row;
}

export function showBreaches(root, camera, now) {
  const breaches = camera.breaches ?? [];
  const turned = Object.values(camera.turned_down ?? {});
  root.querySelector(".breaches").hidden = breaches.length + turned.length === 0;
  setChildren(field(root, "breaches"), breaches.map((breach) => [breach, ago(breach.since, now)]), ([breach, since]) => {
    const item = element("li");
    const pill = element("span", "pill");
    pill.dataset.tone = "bad";
    pill.append(element("i", "dot"), `${words(breach.stage ?? breach.segment)} over budget`);
    item.append(pill, ` P99 ${decimal(breach.p99_ms)} of ${decimalOrWhole(breach.budget_ms)} ms`);
    item.append(element("span", "muted", ` ${since}`));
    return item;
  });
  setChildren(field(root, "turned-down"), turned, (text) => element("li", "", text));
  root.querySelector(".turned").hidden = turned.length === 0;
}

// A number that people chose: as they wrote it.
function decimalOrWhole(value) {
  return value === null ? NONE : Number.isInteger(value) ? count(value) : decimal(value);
}
