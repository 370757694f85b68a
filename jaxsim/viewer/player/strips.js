// When something is so that the controller watches: a strip each, on the charts' scale of time.

const truths = data.strips || [];
const TRUTH_ROW = 24; // [px]

if (truths.length) {
  const canvas = document.createElement("canvas");
  canvas.id = "truths";
  canvas.style.height = TRUTH_ROW * truths.length + 8 + "px";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", truths.map((each) => each.name).join(", "));
  byId("heights").before(canvas);
}

function drawTruths() {
  if (!truths.length) return;
  const canvas = byId("truths");
  canvas.hidden = !frames;
  if (canvas.hidden) return;
  const { g, w } = context(canvas);
  const x0 = timeToX(0, w), x1 = w - margin()[1];
  g.textBaseline = "middle";
  g.textAlign = "left";
  truths.forEach((each, k) => {
    const top = TRUTH_ROW * k + 3;
    g.fillStyle = paint.text;
    g.fillText(fitted(g, each.name, x1 - x0), x0, top + 6);
    g.fillStyle = paint.page;
    g.fillRect(x0, top + 14, x1 - x0, 6);
    g.fillStyle = paint[each.part];
    for (const [a, b] of each.spans) {
      const xa = timeToX(a, w);
      g.fillRect(xa, top + 14, Math.max(timeToX(b, w) - xa, 1), 6);
    }
  });
}
