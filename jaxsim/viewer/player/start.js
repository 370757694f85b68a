// The first picture, and what has it drawn anew. Comes last.

function readHash() { // #t=2.5&view=front
  const hash = new URLSearchParams(location.hash.slice(1));
  if (VIEWS[hash.get("view")]) setView(hash.get("view"));
  const t = parseFloat(hash.get("t"));
  if (!Number.isFinite(t)) return false;
  pause();
  seek(t - data.start);
  return true;
}

readColours();
if (!data.planar) byId("player").classList.add("space");
setView(FIRST_VIEW);
fillEvents();
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
if (!readHash() && !still && end > 0) toggle();
showPlaying();
drawStrips();
show();
window.addEventListener("hashchange", readHash);
dark.addEventListener("change", () => {
  readColours();
  drawStrips();
  state.dirty = true;
});
new ResizeObserver(() => { drawStrips(); show(); }).observe(view);
document.documentElement.dataset.ready = "yes";
requestAnimationFrame(tick);
