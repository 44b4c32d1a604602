// Building and steering elements. Texts only ever become text nodes and attributes.

const byId = (id) => document.getElementById(id);

// An element with attributes (a value of null leaves one out) and children.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  setAll(element, attributes);
  element.append(...children);
  return element;
}

function makeSvg(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  setAll(element, attributes);
  return element;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) element.setAttribute(name, value);
  }
}

// A word, kept apart from the direction of the text around it.
const makeWord = (word, attributes = {}) => make("bdi", { title: word, ...attributes }, word);

// A formula as nodes: what follows an underscore is set below the line.
function math(text) {
  // Split by a pattern with a group: every second part is what the group matched.
  return text.split(/_([\p{L}\p{N}]+(?:,[\p{L}\p{N}]+)*)/u).map((part, n) => (n % 2 === 1 ? make("sub", {}, part) : part));
}

// A heading cell, and a cell with a number that tests and programs can read from `data-value`.
const heading = (text, scope = "col", className = "") => make("th", { scope, class: className }, ...math(text));
function number(value, name = null) {
  return make("td", { class: "n", "data-name": name, "data-value": String(value), title: String(value) }, show(value));
}

// The element with this id, emptied, without the listeners that an earlier drawing left on it.
function fresh(id) {
  const old = byId(id);
  const empty = old.cloneNode(false);
  old.replaceWith(empty);
  return empty;
}

// Scrolls the box around an element, and nothing else, until the element is in sight.
function reveal(element) {
  const box = element.closest(".scroll");
  const [outer, inner] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
  // The names of the columns stay in place over the first rows.
  const top = outer.top + (box.querySelector("thead")?.offsetHeight ?? 0);
  if (inner.top < top || inner.bottom > outer.bottom) {
    box.scrollTop += inner.top - (top + outer.bottom) / 2;
  }
}

// One stop of the Tab key for many elements; arrow keys, Home and End move among them. `columns`
// is their number in a row; in a single list, up and left (down and right) mean the same.
function arrowKeys(container, items, columns) {
  const list = columns === 1;
  let stop = items[0];
  for (const item of items) item.tabIndex = item === stop ? 0 : -1;
  container.addEventListener("focusin", (event) => {
    if (!items.includes(event.target)) return;
    stop.tabIndex = -1;
    stop = event.target;
    stop.tabIndex = 0;
  });
  container.addEventListener("keydown", (event) => {
    const n = items.indexOf(event.target);
    if (n < 0) return;
    const column = n % columns;
    const to = {
      ArrowRight: list || column + 1 < columns ? n + 1 : n,
      ArrowLeft: list || column > 0 ? n - 1 : n,
      ArrowDown: n + columns,
      ArrowUp: n - columns,
      Home: list ? 0 : n - column,
      End: list ? items.length - 1 : n - column + columns - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (items[to]) items[to].focus();
  });
}
