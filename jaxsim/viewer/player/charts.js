// The time line with its phases, and the charts below it, on one scale of time.

const strips = byId("strips");
const margin = () => (view.clientWidth < 560 ? [44, 10] : [62, 18]);

function timeToX(t, w) { // [s] after the start to [px]
  const [left, right] = margin();
  return left + (end > 0 ? t / end : 0) * (w - left - right);
}

function drawTimeline() {
  const { g, w } = context(byId("timeline"));
  const x0 = timeToX(0, w), x1 = end > 0 ? timeToX(end, w) : w - margin()[1], top = 4, tall = 24;
  g.fillStyle = paint.page;
  g.fillRect(x0, top, x1 - x0, tall);
  for (const [a, b, p] of data.bands) {
    const xa = timeToX(a, w), xb = end > 0 ? Math.max(timeToX(b, w), xa + 1) : x1;
    if (p < 0) continue;
    g.globalAlpha = 0.38;
    g.fillStyle = phaseColour(p);
    g.fillRect(xa, top, xb - xa, tall);
    g.globalAlpha = 1;
    g.fillRect(xa, top, xb - xa, 4);
    g.fillRect(xa, top, 1, tall);
    g.fillStyle = paint.text;
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(fitted(g, phaseName(p), xb - xa - 10), xa + 6, top + tall / 2 + 2);
  }
  g.fillStyle = paint.soft;
  g.textBaseline = "top";
  const step = niceStep(end > 0 ? end * 58 / (x1 - x0) : 1);
  for (let k = 0; k * step <= end + 1e-9; k++) {
    const x = timeToX(k * step, w), words = number(k * step + data.start, step) + (k ? "" : " s");
    g.fillRect(x, top + tall, 1, 5);
    g.textAlign = "center";
    if (x + g.measureText(words).width / 2 < w - 2) g.fillText(words, x, top + tall + 7);
  }
}

// series: [{name, colour, value(i)}]; levels: where there are dashed lines
function drawChart(id, label, series, levels = []) {
  const canvas = byId(id);
  canvas.hidden = !series.length || !frames;
  if (canvas.hidden) return;
  const { g, w, h } = context(canvas);
  const x0 = timeToX(0, w), x1 = w - margin()[1], top = 20, bottom = h - 7;
  const { low, high, step } = scaleOf(series, levels,
    Math.max(1, Math.floor((bottom - top) / 24)));
  const y = (v) => bottom - (v - low) / (high - low) * (bottom - top);
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (let k = 0; low + k * step <= high + 1e-9 * step; k++) {
    const v = low + k * step;
    g.fillStyle = paint.line;
    g.fillRect(x0, Math.round(y(v)), x1 - x0, 1);
    g.fillStyle = paint.soft;
    g.fillText(number(v, step), x0 - 7, y(v));
  }
  g.strokeStyle = paint.soft;
  g.lineWidth = 1;
  g.setLineDash([5, 4]);
  g.beginPath();
  for (const v of levels) { g.moveTo(x0, y(v)); g.lineTo(x1, y(v)); }
  g.stroke();
  g.setLineDash([]);
  for (const s of series) drawLine(g, s, (t) => timeToX(t, w), y);
  drawKey(g, label, series, x0, x1);
}

// from 0 or below to the highest value, at most so many steps
function scaleOf(series, levels, most) {
  let low = Math.min(0, ...levels), high = Math.max(0, ...levels);
  for (const s of series) for (let i = 0; i < frames; i++) {
    const v = s.value(i);
    if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  }
  if (high - low < 1e-9) high = low + 1;
  const step = niceStep((high - low) / most);
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  return { low, high, step };
}

function drawLine(g, s, x, y) { // a gap where a value is not finite, a dot where one stands alone
  g.strokeStyle = s.colour;
  g.lineWidth = 1.6;
  g.beginPath();
  let pen = false;
  for (let i = 0; i < frames; i++) {
    const v = s.value(i);
    if (!Number.isFinite(v)) { pen = false; continue; }
    if (pen) g.lineTo(x(time[i]), y(v));
    else { g.moveTo(x(time[i]), y(v)); g.lineTo(x(time[i]) + 0.01, y(v)); }
    pen = true;
  }
  g.stroke();
}

function drawKey(g, label, series, x0, x1) {
  g.textAlign = "left";
  g.fillStyle = paint.soft;
  const title = fitted(g, label, x1 - x0);
  g.fillText(title, x0, 9);
  let x = x0 + g.measureText(title).width + 16;
  if (series.length > 1 || series[0].name) for (const s of series) {
    const room = g.measureText(s.name).width;
    if (x + room + 20 > x1) break;
    g.fillStyle = s.colour;
    g.fillRect(x, 8, 14, 2.5);
    g.fillStyle = paint.text;
    g.fillText(s.name, x + 19, 9);
    x += room + 35;
  }
}

function drawStrips() {
  drawTimeline();
  const heights = data.height_names.map((name, k) => ({ name,
    colour: paint.lines[k % paint.lines.length],
    value: (i) => arrays.heights[heightCount * i + k] }));
  const force = { name: "", colour: paint.force, value: (i) => arrays.force_peak[i] };
  drawChart("heights", "Height [m]", heights);
  drawChart("force", "Contact force, normal [N], peak per frame", hasForce ? [force] : []);
  drawGaugeCharts();
  drawTruths();
  drawShares();
  placeCursor();
}

function placeCursor() {
  byId("cursor").style.transform = `translateX(${timeToX(state.t, strips.clientWidth)}px)`;
}
