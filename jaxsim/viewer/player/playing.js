// Time goes on: play, pause, step, jump.

function seek(t) {
  state.t = clamp(Number.isFinite(t) ? t : 0, 0, end);
  state.dirty = true;
}

function showPlaying() {
  byId("play").textContent = state.playing ? "Pause" : "Play";
}

function pause() {
  state.playing = false;
  showPlaying();
}

function toggle() {
  if (!state.playing && state.t >= end - 1e-6) state.t = 0;
  state.playing = !state.playing && end > 0;
  state.dirty = true;
  showPlaying();
}

function step(count) {
  if (!frames) return;
  pause();
  const i = frameAt(state.t), between = state.t - time[i] > 1e-5 && count < 0 ? 1 : 0;
  seek(time[clamp(i + count + between, 0, frames - 1)]);
}

let before = null; // [ms] when the last picture was due

function tick(now) {
  const dt = before === null ? 0 : Math.min((now - before) / 1000, 0.1);
  before = now;
  if (state.playing) {
    state.t += dt * state.speed;
    if (state.t >= end) {
      if (byId("loop").checked) state.t %= end; else { state.t = end; pause(); }
    }
    state.dirty = true;
  }
  if (state.dirty) {
    state.dirty = false;
    show();
  }
  requestAnimationFrame(tick);
}

function show() {
  const i = frames ? frameAt(state.t) : 0;
  const gap = i + 1 < frames ? time[i + 1] - time[i] : 0;
  drawScene(i, gap > 0 ? clamp((state.t - time[i]) / gap, 0, 1) : 0);
  placeCursor();
  showReadouts(i);
  showGauges(i);
}
