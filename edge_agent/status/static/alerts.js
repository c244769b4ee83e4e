// The newest alerts of all cameras, and in the header whether every budget is kept.

import { decimal, element, field, isolated, setChildren, setText, words } from "./dom.js";

const SHOWN = 12;

const byId = (id) => document.getElementById(id);

export function showAlerts(status) {
  const watched = status.cameras.filter((camera) => Object.keys(camera.budgets_ms ?? {}).length > 0);
  const alerts = status.alerts ?? [];
  byId("alerts-panel").hidden = watched.length === 0 && alerts.length === 0;
  byId("budgets").hidden = watched.length === 0;
  const breached = watched.reduce((total, camera) => total + camera.breaches.length, 0);
  byId("budgets").dataset.tone = breached ? "bad" : "good";
  const kept = breached === 1 ? "1 budget breached" : `${breached} budgets breached`;
  setText(field(document, "budgets-state"), breached ? kept : "budgets kept");
  const together = watched.length > 1 ? Object.entries(status.segments ?? {}) : [];
  byId("together").hidden = together.length === 0;
  setChildren(byId("together-p99"), together, ([name, times]) => {
    const pair = element("div");
    pair.append(element("dt", "", words(name)), element("dd", "", `${decimal(times.p99_ms)} ms`));
    return pair;
  });
  byId("no-alerts").hidden = alerts.length > 0;
  byId("alerts-table").hidden = alerts.length === 0;
  setChildren(byId("alerts"), alerts.slice(0, SHOWN), alertRow);
}

function alertRow(alert) {
  const row = element("tr");
  const when = element("td", "when", new Date(alert.at).toLocaleTimeString("en-GB"));
  when.title = alert.at;
  const head = element("th");
  head.scope = "row";
  head.append(isolated(alert.camera));
  const state = element("td");
  const pill = element("span", "pill");
  pill.dataset.tone = alert.state === "cleared" ? "good" : "bad";
  pill.append(element("i", "dot"), isolated(alert.state));
  state.append(pill);
  const what = element("td", "what");
  what.append(isolated(alert.detail));
  row.append(when, head, state, what);
  return row;
}
