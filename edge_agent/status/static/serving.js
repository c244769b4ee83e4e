// How workers have served: the sizes of their batches and why each closed, and answers that cost no run.

import { NONE, cell, count, decimal, element, percent, rowHead, setChildren, size, words } from "./dom.js";

const HIGHEST_REM = 1.8;

const byId = (id) => document.getElementById(id);
const most = (numbers) => Math.max(1, ...Object.values(numbers));

function histogram(sizes) {
  const bars = element("ul", "bars");
  const top = most(sizes);
  for (const [batch, n] of Object.entries(sizes).sort(([a], [b]) => Number(a) - Number(b))) {
    const item = element("li");
    item.title = `${count(n)} of size ${batch}`;
    const bar = element("i");
    bar.style.height = `${(HIGHEST_REM * n) / top}rem`;
    item.append(bar, element("span", "", batch), element("span", "sr-only", `: ${count(n)}`));
    bars.append(item);
  }
  return bars;
}

function listed(numbers) {
  const parts = Object.entries(numbers).filter(([, n]) => n > 0).sort(([, a], [, b]) => b - a);
  return parts.map(([name, n]) => `${words(name)} ${count(n)}`).join(", ") || NONE;
}

// With h the hit ratio: h * T_hit + (1 - h) * T_miss.
function meanText({ hit_ratio: h, hit_ms: hit, miss_ms: miss, mean_ms: mean }) {
  if (h === null || mean === null) return NONE;
  if (hit === null || miss === null) return decimal(mean);
  return `${h.toFixed(2)} × ${decimal(hit)} + ${(1 - h).toFixed(2)} × ${decimal(miss)} = ${decimal(mean)}`;
}

function servingRow({ worker, batches, reuse }) {
  const row = element("tr");
  const sizes = cell("Batches by size");
  if (batches === null || Object.keys(batches.sizes).length === 0) sizes.append(NONE);
  else sizes.append(histogram(batches.sizes));
  row.append(
    rowHead(worker),
    sizes,
    cell("Closed because", batches === null ? NONE : listed(batches.reasons)),
    cell("Padding", batches === null ? NONE : percent(batches.padded_share), "num"),
    cell("Joined", reuse === null ? NONE : count(reuse.joined), "num"),
    cell("Cache hits", reuse === null ? NONE : percent(reuse.hit_ratio), "num"),
    cell("Mean ms", reuse === null ? NONE : meanText(reuse), "num"),
    cell("Held", reuse === null ? NONE : size(reuse.held_bytes), "num"),
  );
  return row;
}

export function showServing(status) {
  const workers = status.workers
    .filter(({ batches, reuse }) => batches !== null || reuse !== null)
    .map(({ worker, batches, reuse }) => ({ worker, batches, reuse }));
  byId("serving-panel").hidden = workers.length === 0;
  setChildren(byId("serving"), workers, servingRow);
}
