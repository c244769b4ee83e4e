// Writing data into the page, always as text, and only where it changed; and numbers as people read them.

const integers = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const NONE = "–";

export function field(root, name) {
  return root.querySelector(`[data-field="${name}"]`);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Data that people wrote may run from right to left; it must not turn the text around it.
export function isolated(text, className) {
  return element("bdi", className, text);
}

const shown = new WeakMap();

// Rebuilds the children of `parent` only when `items` differ from those shown.
export function setChildren(parent, items, make) {
  const key = JSON.stringify(items);
  if (shown.get(parent) === key) return;
  shown.set(parent, key);
  parent.replaceChildren(...items.map(make));
}

export function count(value) {
  return integers.format(value);
}

export function decimal(value) {
  if (value === null) return NONE;
  return Math.abs(value) < 99.95 ? tenths.format(value) : integers.format(value);
}

export function size(bytes) {
  if (bytes === 0) return "0";
  if (bytes < 1e6) return `${decimal(bytes / 1e3)} kB`;
  return bytes < 1e9 ? `${decimal(bytes / 1e6)} MB` : `${decimal(bytes / 1e9)} GB`;
}

// A cell that can say what it is where a narrow page has no room for the head of its column.
export function cell(label, text, className) {
  const made = element("td", className, text);
  made.dataset.label = label;
  return made;
}

export function rowHead(name) {
  const made = element("th");
  made.scope = "row";
  made.append(isolated(name));
  return made;
}

export function pill(tone, text) {
  const made = element("span", "pill");
  made.dataset.tone = tone;
  made.append(element("i", "dot"), text);
  return made;
}

// Rounded down, so that 100 % means all of them.
export function percent(ratio) {
  if (ratio === null) return NONE;
  const digits = ratio > 0.99 && ratio < 1 ? 2 : ratio === 1 ? 0 : 1;
  const scale = 10 ** digits;
  return `${(Math.floor(ratio * 100 * scale + 1e-7) / scale).toFixed(digits)} %`;
}

// Rounded up, so that 0 % means none at all.
export function percentUp(ratio) {
  if (ratio === null) return NONE;
  return ratio === 0 ? "0 %" : `${(Math.ceil(ratio * 1000 - 1e-7) / 10).toFixed(1)} %`;
}

export function words(name) {
  return name.replaceAll("_", " ");
}

// Both moments are the agent's, so the viewer's clock does not matter.
export function ago(since, now) {
  const seconds = Math.floor((Date.parse(now) - Date.parse(since)) / 1000);
  if (!Number.isFinite(seconds) || seconds < 0) return "";
  if (seconds < 60) return `for ${seconds} s`;
  if (seconds < 3600) return `for ${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `for ${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `for ${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}
