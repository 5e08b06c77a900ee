// Builds elements of HTML and SVG, and changes them only where something differs: screen readers and the eye get no needless news.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", {class: "note"}, "text", child)`. Keys that begin with `on` are listeners; false, null: left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** The element with this id, which the page has. */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element #${id}`);
  return found;
}

/** Sets a text where it differs. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides an element. */
export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/** The colours of the current theme, by their names in the style sheet. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "muted", "faint", "line", "card", "prefill", "decode", "wait", "kv", "tone-alert"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** The root's font size over that of a laptop: what is drawn grows with the text around it. */
export function em() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
}

/** A canvas as sharp as the screen, cleared: its context, and its width and height in the units that are drawn in. */
export function sharp(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext("2d");
  const unit = em();
  context.setTransform(ratio * unit, 0, 0, ratio * unit, 0, 0);
  context.clearRect(0, 0, width / unit, height / unit);
  return { context, width: width / unit, height: height / unit };
}

/** A font for a canvas, the page's own. */
export function font(size, weight = 400) {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
}

/** Puts a text on the clipboard and says so on the button for a moment. */
export async function copy(button, text) {
  const before = button.dataset.label ?? (button.dataset.label = button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "select it and copy";
  }
  clearTimeout(Number(button.dataset.timer));
  button.dataset.timer = setTimeout(() => { button.textContent = before; }, 1500);
}
