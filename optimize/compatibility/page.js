"use strict";
(() => {
const model = JSON.parse(document.getElementById("model").textContent);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const box = (id) => document.getElementById(id);
const unit = (p) => p.map((x, k) => (x - model.lower[k]) / (model.upper[k] - model.lower[k]));

function fitted(canvas) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return pen;
}

function dot(pen, x, y, radius, fill) {
  pen.fillStyle = fill;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

// ---- three numbers: a box that turns

let yaw = -0.7, pitch = 0.35;
function drawSpace() {
  const canvas = box("space"), pen = fitted(canvas);
  const w = canvas.clientWidth, h = canvas.clientHeight, size = 0.56 * Math.min(w, h);
  const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
  // the first number is up, the others are across
  const seen = ([c, a, b]) => {
    const x = a - 0.5, y = b - 0.5, z = c - 0.5;
    const across = cy * x + sy * y, away = cy * y - sy * x;
    return [w / 2 + size * across, h / 2 - size * (cp * z + sp * away), cp * away - sp * z];
  };
  const things = [];
  if (box("volume").checked) for (const face of model.faces) {
    const corners = face.map(seen);
    const deep = (corners[0][2] + corners[2][2]) / 2;
    things.push([deep, () => {
      pen.globalAlpha = 0.13;
      pen.fillStyle = colour("below");
      pen.beginPath();
      for (const [x, y] of corners) pen.lineTo(x, y);
      pen.fill();
      pen.globalAlpha = 1;
    }]);
  }
  const fills = [colour("above"), colour("below")];
  if (box("points").checked) model.points.forEach((p, k) => {
    const [x, y, deep] = seen(unit(p));
    things.push([deep, () => dot(pen, x, y, 1.7, fills[model.yes[k]])]);
  });
  model.answers.forEach((p) => {
    const [x, y, deep] = seen(unit(p));
    things.push([deep - 10, () => { dot(pen, x, y, 7, colour("card")); dot(pen, x, y, 5, colour("accent")); }]);
  });
  axes(pen, seen);
  things.sort((a, b) => b[0] - a[0]).forEach(([, draw]) => draw());
}

function axes(pen, seen) {
  pen.strokeStyle = colour("soft");
  pen.fillStyle = colour("text");
  pen.font = "12px system-ui";
  pen.textAlign = "center";
  for (let k = 0; k < 3; k++) for (const i of [0, 1]) for (const j of [0, 1]) {
    const ends = [0, 1].map((t) => { const p = [0, 0, 0]; p[k] = t; p[(k + 1) % 3] = i; p[(k + 2) % 3] = j; return seen(p); });
    pen.beginPath();
    for (const [x, y] of ends) pen.lineTo(x, y);
    pen.stroke();
  }
  model.names.forEach((name, k) => {
    const low = [0, 0, 0], high = [0, 0, 0];
    high[k] = 1;
    if (k === 0) low[2] = high[2] = 1; // the edge that stands to the right
    const [a, b] = [seen(low), seen(high)], middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    const centre = seen([0.5, 0.5, 0.5]);
    const out = ([x, y], far) => { const dx = x - centre[0], dy = y - centre[1], l = Math.hypot(dx, dy) || 1; return [x + far * dx / l, y + far * dy / l]; };
    pen.fillText(name, ...out(middle, 44));
    const along = (part) => a.map((x, i) => x + part * (b[i] - x)); // off the corners, where edges meet
    pen.fillText(model.lower[k], ...out(along(0.06), 16));
    pen.fillText(model.upper[k], ...out(along(0.94), 16));
  });
}

// ---- any number of numbers: slices

function drawSlices() {
  for (const slice of model.slices) {
    const canvas = slice.canvas, pen = fitted(canvas);
    const left = 46, top = 8, w = canvas.clientWidth - left - 10, h = canvas.clientHeight - top - 38;
    const n = slice.inside.length, m = slice.inside[0].length;
    if (box("volume").checked) {
      pen.globalAlpha = 0.3;
      pen.fillStyle = colour("below");
      slice.inside.forEach((row, i) => row.forEach((yes, j) => {
        if (yes) pen.fillRect(left + w * i / n, top + h * (1 - (j + 1) / m), w / n + 0.5, h / m + 0.5);
      }));
      pen.globalAlpha = 1;
    }
    const at = (p) => { const u = unit(p); return [left + w * u[slice.across], top + h * (1 - u[slice.up])]; };
    if (box("points").checked) for (const k of slice.near) dot(pen, ...at(model.points[k]), 2, colour(model.yes[k] ? "below" : "above"));
    for (const p of model.answers) dot(pen, ...at(p), 4, colour("accent"));
    pen.strokeStyle = colour("soft");
    pen.strokeRect(left, top, w, h);
    pen.fillStyle = colour("text");
    pen.font = "12px system-ui";
    pen.textAlign = "center";
    const [a, u] = [slice.across, slice.up];
    pen.fillText(`${model.lower[a]}   ${model.names[a]}   ${model.upper[a]}`, left + w / 2, top + h + 18);
    pen.save();
    pen.translate(18, top + h / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(`${model.lower[u]}   ${model.names[u]}   ${model.upper[u]}`, 0, 0);
    pen.restore();
  }
}

const solid = model.names.length === 3;
box("space").hidden = !solid;
if (!solid) box("space").style.display = "none";
for (const slice of model.slices) {
  slice.canvas = document.createElement("canvas");
  box("slices").append(slice.canvas);
}
const draw = () => { if (solid) drawSpace(); drawSlices(); };
let held = null;
box("space").addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; e.target.setPointerCapture(e.pointerId); });
box("space").addEventListener("pointermove", (e) => {
  if (!held) return;
  yaw += (e.clientX - held[0]) / 150;
  pitch = Math.max(-1.5, Math.min(1.5, pitch + (e.clientY - held[1]) / 150));
  held = [e.clientX, e.clientY];
  draw();
});
box("space").addEventListener("pointerup", () => { held = null; });
for (const id of ["points", "volume"]) box(id).addEventListener("change", draw);
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
})();
