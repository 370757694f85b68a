// What the parts of a controller's objective come to over time: areas on top of each other, of 1.

const shareNames = data.share_names || [];
const shareAt = (i, k) => arrays.shares[shareNames.length * i + k];

if (shareNames.length) {
  const canvas = document.createElement("canvas");
  canvas.id = "shares";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Share of the objective: " + shareNames.join(", "));
  byId("heights").before(canvas);
}

// parts by how much they come to over all frames, the largest first and at the bottom
const shareOrder = shareNames.map((_, k) => k);
const shareTotal = shareOrder.map((k) => {
  let sum = 0;
  for (let i = 0; i < frames; i++) if (Number.isFinite(shareAt(i, k))) sum += shareAt(i, k);
  return sum / Math.max(frames, 1);
});
shareOrder.sort((a, b) => shareTotal[b] - shareTotal[a]);
const shareColour = (rank) => paint.phases[rank % paint.phases.length];

function drawShares() {
  if (!shareNames.length) return;
  const canvas = byId("shares");
  canvas.hidden = !frames;
  if (canvas.hidden) return;
  const { g, w, h } = context(canvas);
  const x0 = timeToX(0, w), x1 = w - margin()[1], top = 20, bottom = h - 7;
  const y = (v) => bottom - v * (bottom - top);
  const below = new Float64Array(frames);
  shareOrder.forEach((k, rank) => {
    g.fillStyle = shareColour(rank);
    g.globalAlpha = 0.8;
    g.beginPath();
    for (let i = 0; i < frames; i++) g.lineTo(timeToX(time[i], w), y(below[i]));
    for (let i = frames - 1; i >= 0; i--) {
      below[i] += Number.isFinite(shareAt(i, k)) ? shareAt(i, k) : 0;
      g.lineTo(timeToX(time[i], w), y(below[i]));
    }
    g.fill();
  });
  g.globalAlpha = 1;
  g.fillStyle = paint.soft;
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const v of [0, 0.5, 1]) g.fillText(100 * v + "%", x0 - 7, y(v));
  const named = shareOrder.filter((k) => shareTotal[k] > 0.005);
  drawKey(g, "Share of the objective", named.map((k) => (
    { name: shareNames[k], colour: shareColour(shareOrder.indexOf(k)) })), x0, x1);
}
