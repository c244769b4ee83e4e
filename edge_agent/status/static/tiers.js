// The panel of tiers: where requests can be sent, and where each camera's pictures may go and have gone.

import { NONE, cell, count, decimal, element, isolated, pill, rowHead, setChildren, setText, size, words } from "./dom.js";

const byId = (id) => document.getElementById(id);

function targetRow(target) {
  const row = element("tr");
  const state = cell("State");
  state.append(pill(target.closed ? "bad" : "good", target.closed ? "not asked" : "asked"));
  if (target.closed) state.append(" ", isolated(words(target.closed), "muted"));
  const place = cell("Tier", target.tier);
  if (target.location) place.append(", ", isolated(target.location));
  const model = cell("Model");
  model.append(isolated(target.model));
  row.append(
    rowHead(target.target),
    state,
    place,
    model,
    cell("Workers", count(target.workers), "num"),
    cell("Expected ms", decimal(target.round_trip_ms), "num"),
    cell("Under way", count(target.in_flight), "num"),
    cell("Asked", count(target.asked), "num"),
    cell("Answered", count(target.answered), "num"),
    cell("Refused", count(target.refused), "num"),
    cell("Moved away", count(target.moved), "num"),
    cell("Sent", size(target.bytes_up), "num"),
  );
  return row;
}

function mayGo(tiers) {
  const beyond = tiers.allowed.filter((tier) => tier !== "device");
  if (beyond.length === 0) return "nowhere, device alone";
  return beyond.map((tier) => (tiers.masked_only.includes(tier) ? `${tier} (masked crops)` : tier)).join(", ");
}

function cameraRow({ name, tiers }) {
  const row = element("tr");
  const plan = cell("Asks");
  plan.append(isolated(tiers.plan.join(", then ") || NONE));
  row.append(rowHead(name), cell("Pictures may go to", mayGo(tiers)), plan);
  for (const tier of ["device", "edge", "cloud"]) row.append(cell(`By ${tier}`, count(tiers.answers[tier] ?? 0), "num"));
  row.append(
    cell("Sent on site", size(tiers.sent_bytes.edge ?? 0), "num"),
    cell("Left the site", size(tiers.leaving_site_bytes), "num"),
  );
  return row;
}

export function showTiers(status) {
  const cameras = status.cameras.filter((camera) => camera.tiers).map(({ name, tiers }) => ({ name, tiers }));
  byId("tiers-panel").hidden = status.targets.length === 0 && cameras.length === 0;
  byId("targets-table").hidden = status.targets.length === 0;
  byId("plans-table").hidden = cameras.length === 0;
  setText(byId("leaving"), `Pictures that have left the site: ${size(status.bytes_leaving_site)}`);
  setChildren(byId("targets"), status.targets, targetRow);
  setChildren(byId("plans"), cameras, cameraRow);
}
