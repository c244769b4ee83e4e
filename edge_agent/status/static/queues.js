// The table of queues: what Little's law says of each, beside what was measured.

import { NONE, count, decimal, element, rowHead, setChildren } from "./dom.js";

const lengths = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 3, maximumFractionDigits: 3 });

function length(value) {
  return value === null ? NONE : lengths.format(value);
}

function row(queue) {
  const made = element("tr");
  made.append(
    rowHead(queue.name),
    element("td", "num", decimal(queue.arrivals_per_s)),
    element("td", "num", decimal(queue.wait_ms)),
    element("td", "num", length(queue.expected_length)),
    element("td", "num", length(queue.mean_length)),
    element("td", "num", count(queue.length)),
  );
  return made;
}

export function showQueues(status) {
  document.getElementById("queues-panel").hidden = status.queues.length === 0;
  setChildren(document.getElementById("queues"), status.queues, row);
}
