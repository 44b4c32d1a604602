// One hue from light to dark (from dark to light in the dark theme): told apart by lightness alone.

// How far along the scale a weight stands: its root, so that among many words small weights can
// still be told from none.
const depth = (weight) => Math.sqrt(Math.min(1, Math.max(0, weight)));

// The ends of the scale as the style sheet has them now.
function readScale() {
  const style = getComputedStyle(document.documentElement);
  const parse = (name) => {
    const hex = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
  };
  return { low: parse("--scale-low"), high: parse("--scale-high") };
}

const mix = (scale, weight) =>
  scale.low.map((low, channel) => Math.round(low + depth(weight) * (scale.high[channel] - low)));

const colour = (scale, weight) => `rgb(${mix(scale, weight).join(" ")})`;

// Black or white, whichever stands out more from the colour of a weight.
function textColour(scale, weight) {
  const [r, g, b] = mix(scale, weight);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111820" : "#ffffff";
}

// Marks below the ramp: even steps of the root are not even steps of the weight.
function drawTicks() {
  for (const weight of [0, 0.05, 0.25, 0.5, 1]) {
    const tick = make("span", {}, String(weight));
    tick.style.left = `${100 * depth(weight)}%`;
    byId("ticks").append(tick);
  }
}
