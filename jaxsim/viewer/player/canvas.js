// Colours, canvases, and the outlines that all drawings are made of.

const dark = matchMedia("(prefers-color-scheme: dark)");
let paint = {};

function readColours() {
  paint = data.colours[dark.matches ? "dark" : "light"];
}

const phaseColour = (p) => (p < 0 ? paint.line : paint.phases[p % paint.phases.length]);
const phaseName = (p) => (p < 0 ? "" : data.phases[p]);
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

function context(canvas) { // cleared, sized to its box, in CSS pixels
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, canvas.clientWidth), h = Math.max(1, canvas.clientHeight);
  const W = Math.round(w * ratio), H = Math.round(h * ratio);
  if (canvas.width !== W || canvas.height !== H) { canvas.width = W; canvas.height = H; }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  g.font = "12px " + FONT;
  g.lineJoin = g.lineCap = "round";
  return { g, w, h };
}

function fitted(g, words, room) { // cut off where they need more than the room [px]
  if (g.measureText(words).width <= room) return words;
  let cut = words;
  while (cut && g.measureText(cut + "\u2026").width > room) cut = cut.slice(0, -1);
  return cut.length > 1 ? cut + "\u2026" : "";
}

function tracePolygon(g, points) {
  g.beginPath();
  points.forEach((p, k) => (k ? g.lineTo(p[0], p[1]) : g.moveTo(p[0], p[1])));
  g.closePath();
}

function traceCapsule(g, a, r0, b, r1) { // two circles and their outer tangents
  const d = Math.hypot(b[0] - a[0], b[1] - a[1]);
  g.beginPath();
  if (d <= Math.abs(r0 - r1) + 1e-9) { // one circle holds the other
    const [c, r] = r0 >= r1 ? [a, r0] : [b, r1];
    g.arc(c[0], c[1], r, 0, 2 * Math.PI);
    return;
  }
  const axis = Math.atan2(b[1] - a[1], b[0] - a[0]), half = Math.acos((r0 - r1) / d);
  g.arc(a[0], a[1], r0, axis + half, axis - half + 2 * Math.PI);
  g.arc(b[0], b[1], r1, axis - half, axis + half);
  g.closePath();
}
