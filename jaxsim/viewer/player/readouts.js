// Numbers and words beside the picture, and the table of phases.

function addReadout(key, label) {
  const dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = label;
  dd.id = "read-" + key;
  if (key === "time") dt.className = dd.className = "time";
  byId("readouts").append(dt, dd);
}

addReadout("time", "");
const headIndex = Math.max(0, data.height_names.indexOf("head"));
if (heightCount) addReadout("height", data.height_names[headIndex] + " height");
if (hasForce) addReadout("force", "contact force");
addReadout("frame", "frame");

function enteredBy(t, p) { // the event that started the phase p that is on at t
  let found = null;
  for (const e of data.events) if (e[0] <= t + 1e-6 && e[1] === data.phases[p]) found = e;
  return found;
}

const shown = (v, digits, unit) => (Number.isFinite(v) ? v.toFixed(digits) : "\u2013") + " " + unit;

const clock = (t) => (t + data.start).toFixed(3) + " s"; // as the simulation counts it

function write(id, words) {
  const element = byId(id);
  if (element.textContent !== words) element.textContent = words;
}

function showReadouts(i) {
  const t = state.t + data.start, p = frames ? arrays.phase[i] : -1;
  write("read-time", clock(state.t));
  write("read-frame", frames ? (i + 1) + " / " + frames : "\u2013");
  const height = frames ? arrays.heights[heightCount * i + headIndex] : NaN;
  if (heightCount) write("read-height", shown(height, 3, "m"));
  if (hasForce) write("read-force", shown(arrays.force[i], 0, "N"));
  byId("phase").hidden = p < 0;
  write("phase-text", phaseName(p));
  byId("phase-swatch").style.background = p < 0 ? "none" : phaseColour(p);
  const by = p < 0 ? null : enteredBy(state.t, p);
  const since = by ? "since " + clock(by[0]) : "";
  write("phase-why", by && by[2] ? since + ": " + by[2] : since);
  const words = t.toFixed(2) + " seconds" + (p < 0 ? "" : ", phase " + phaseName(p));
  strips.setAttribute("aria-valuenow", t.toFixed(3));
  strips.setAttribute("aria-valuetext", words);
}

function fillEvents() {
  const body = document.querySelector("#events tbody");
  byId("events").hidden = !data.events.length;
  byId("summary").hidden = !document.querySelector("#summary tr");
  for (const [t, name, why] of data.events) {
    const row = body.insertRow(), jump = document.createElement("button");
    jump.type = "button";
    jump.textContent = clock(t);
    jump.addEventListener("click", () => { pause(); seek(t); });
    row.insertCell().append(jump);
    row.insertCell().textContent = name;
    row.insertCell().textContent = why;
  }
}
