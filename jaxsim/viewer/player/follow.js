// What the camera follows: the character, or all that moves where there is none.

const followed = data.links.some((l) => l.role === "character")
  ? data.links.map((l) => l.role === "character") : data.links.map(() => true);

const middle = (() => { // per frame the smoothed mean of these links
  const raw = new Float64Array(3 * frames);
  const last = [0, 0, 0];
  for (let i = 0; i < frames; i++) {
    const sum = [0, 0, 0];
    let n = 0;
    for (let l = 0; l < linkCount; l++) {
      const p = arrays.link_pos.subarray(3 * (i * linkCount + l), 3 * (i * linkCount + l) + 3);
      if (followed[l] && finite(p)) { n++; for (let k = 0; k < 3; k++) sum[k] += p[k]; }
    }
    for (let k = 0; k < 3; k++) raw[3 * i + k] = last[k] = n ? sum[k] / n : last[k];
  }
  const out = new Float64Array(3 * frames);
  for (let k = 0; k < 3; k++) {
    let a = 0, b = 0, sum = 0;
    for (let i = 0; i < frames; i++) {
      const reach = Math.min(0.3, time[i] - time[0], end - time[i]) + 1e-6;
      while (b < frames && time[b] <= time[i] + reach) sum += raw[3 * b++ + k];
      while (time[a] < time[i] - reach) sum -= raw[3 * a++ + k];
      out[3 * i + k] = sum / (b - a);
    }
  }
  return out;
})();

function followPoint(i, f) { // x and y
  if (!frames) return [0, 0];
  const j = Math.min(i + 1, frames - 1);
  return [0, 1].map((k) => middle[3 * i + k] + f * (middle[3 * j + k] - middle[3 * i + k]));
}

const extent = (() => { // the room the character takes around the follow point
  const e = { across: 0.3, low: Infinity, high: -Infinity };
  const step = Math.max(1, Math.floor(frames / 80));
  for (let i = 0; i < frames; i += step) {
    const links = poses(i, 0), c = followPoint(i, 0);
    const take = (p, r) => {
      e.across = Math.max(e.across, Math.hypot(p[0] - c[0], p[1] - c[1]) + r);
      e.low = Math.min(e.low, p[2] - r);
      e.high = Math.max(e.high, p[2] + r);
    };
    for (const s of shapes) {
      const at = s.link < 0 || !followed[s.link] ? null : placed(s, links);
      if (!at) continue;
      for (const o of KINDS[s.kind] ? solidsOf(s, at) : []) {
        for (const [p, r] of o.balls || []) take(p, r);
        for (const p of o.half ? [at.p, ...corners(at, o.half)] : o.points || []) take(p, 0);
      }
    }
    for (const l of bare) if (followed[l] && links[l]) take(links[l].p, 0.03);
  }
  if (!(e.high > e.low)) { e.low = 0; e.high = 2; }
  if (planes.length) { e.low = Math.min(e.low, 0); e.high = Math.max(e.high, 0.5); }
  return e;
})();
