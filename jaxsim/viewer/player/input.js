// What buttons, pointer, wheel and keys do.

byId("play").addEventListener("click", toggle);
byId("back").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("speed").addEventListener("change", (e) => { state.speed = Number(e.target.value); });
byId("views").addEventListener("change", (e) => {
  if (VIEWS[e.target.value]) setView(e.target.value);
});
byId("reset").addEventListener("click", resetView);
byId("follow").addEventListener("change", (e) => { // the picture stays where it is
  options.follow = e.target.checked;
  const at = followPoint(frames ? frameAt(state.t) : 0, 0), sign = options.follow ? -1 : 1;
  camera.offset = along(camera.offset, sign, [at[0], at[1], 0]);
  state.dirty = true;
});
for (const name of ["forces", "com", "ghost"]) {
  byId(name).addEventListener("change", (e) => {
    options[name] = e.target.checked;
    state.dirty = true;
  });
}
byId("com-label").hidden = !hasCom && comHeight < 0;
byId("ghost-label").hidden = !hasGhost;

const touches = new Map();
let pinch = 0;

function pan(dx, dy) {
  const cam = lens(0, 0);
  camera.offset = along(along(camera.offset, -dx / cam.scale, cam.right), dy / cam.scale, cam.up);
  state.dirty = true;
}

function zoom(factor, x, y) { // the point under (x, y) stays
  const old = camera.zoom;
  camera.zoom = clamp(old * factor, 0.05, 60);
  const k = 1 - camera.zoom / old;
  pan(k * (x - view.clientWidth / 2), k * (y - view.clientHeight / 2));
}

view.addEventListener("pointerdown", (e) => {
  view.setPointerCapture(e.pointerId);
  touches.set(e.pointerId, [e.clientX, e.clientY]);
  pinch = 0;
});
for (const name of ["pointerup", "pointercancel"]) {
  view.addEventListener(name, (e) => { touches.delete(e.pointerId); pinch = 0; });
}

view.addEventListener("pointermove", (e) => {
  const old = touches.get(e.pointerId);
  if (!old) return;
  const dx = e.clientX - old[0], dy = e.clientY - old[1];
  touches.set(e.pointerId, [e.clientX, e.clientY]);
  if (touches.size === 2) { // two fingers: pinch and pan
    const [a, b] = [...touches.values()], box = view.getBoundingClientRect();
    const far = Math.hypot(a[0] - b[0], a[1] - b[1]);
    if (pinch > 0) zoom(far / pinch, (a[0] + b[0]) / 2 - box.left, (a[1] + b[1]) / 2 - box.top);
    pinch = far;
    pan(dx / 2, dy / 2);
  } else if (e.shiftKey || e.buttons & 2) pan(dx, dy);
  else {
    camera.yaw -= 0.008 * dx;
    camera.pitch = clamp(camera.pitch + 0.008 * dy, -Math.PI / 2 + 0.002, Math.PI / 2 - 0.002);
    byId("views").value = "free";
    state.dirty = true;
  }
});
view.addEventListener("contextmenu", (e) => e.preventDefault());
view.addEventListener("dblclick", resetView);
view.addEventListener("wheel", (e) => {
  e.preventDefault();
  const box = view.getBoundingClientRect(), lines = e.deltaMode === 1 ? 30 : 1;
  zoom(Math.exp(-0.0015 * lines * e.deltaY), e.clientX - box.left, e.clientY - box.top);
}, { passive: false });

function timeUnder(e) {
  const box = strips.getBoundingClientRect(), [left, right] = margin();
  return clamp((e.clientX - box.left - left) / (box.width - left - right), 0, 1) * end;
}

strips.addEventListener("pointerdown", (e) => {
  if (e.button !== 0) return;
  strips.setPointerCapture(e.pointerId);
  pause();
  seek(timeUnder(e));
});
strips.addEventListener("pointermove", (e) => {
  const t = timeUnder(e);
  if (strips.hasPointerCapture(e.pointerId)) seek(t);
  const band = data.bands.find(([a, b]) => t >= a && t <= b);
  strips.title = band && band[2] >= 0
    ? `${phaseName(band[2])}: ${(band[0] + data.start).toFixed(3)} to ${clock(band[1])}` : "";
});
strips.setAttribute("aria-valuemin", data.start.toFixed(3));
strips.setAttribute("aria-valuemax", (end + data.start).toFixed(3));

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  const tag = e.target.tagName;
  if (tag === "SELECT" || (e.key === " " && (tag === "BUTTON" || tag === "INPUT"))) return;
  const many = e.shiftKey ? 10 : 1;
  const keys = { " ": toggle, ArrowLeft: () => step(-many), ArrowRight: () => step(many),
    Home: () => { pause(); seek(0); }, End: () => { pause(); seek(end); } };
  if (keys[e.key]) {
    e.preventDefault();
    keys[e.key]();
  }
});
