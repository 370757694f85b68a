// Gauges of the controller: a bar each that moves with the player, and a chart each below it.

const gauges = data.gauges || [];
const gaugeAt = (i, k) => arrays.gauge_values[gauges.length * i + k];

function zoneOf({ thresholds }, v) { // also the name of its colour
  if (!thresholds.length || v < thresholds[0]) return "below";
  return v < thresholds[thresholds.length - 1] ? "between" : "above";
}

function percent({ scale: [low, high] }, v) { // where a value is along the bar
  return 100 * clamp((v - low) / (high - low), 0, 1);
}

gauges.forEach((gauge, k) => {
  addReadout("gauge-" + k, gauge.name);
  const bar = document.createElement("dd"), chart = document.createElement("canvas");
  bar.className = chart.className = "gauge";
  bar.append(document.createElement("i"));
  bar.firstChild.id = "bar-" + k;
  for (const threshold of gauge.thresholds) {
    const mark = document.createElement("b");
    mark.style.left = percent(gauge, threshold) + "%";
    bar.append(mark);
  }
  byId("readouts").append(bar);
  chart.id = "chart-" + k;
  byId("cursor").before(chart);
});

function showGauges(i) {
  gauges.forEach((gauge, k) => {
    const v = frames ? gaugeAt(i, k) : NaN, known = Number.isFinite(v), [low, high] = gauge.scale;
    const a = percent(gauge, 0), b = known ? percent(gauge, v) : a, fill = byId("bar-" + k);
    fill.style.left = Math.min(a, b) + "%";
    fill.style.width = Math.abs(b - a) + "%";
    fill.style.background = known ? `var(--${zoneOf(gauge, v)})` : "none";
    write("read-gauge-" + k, shown(v, decimals((high - low) / 100), gauge.unit));
  });
}

function drawGaugeCharts() {
  gauges.forEach((gauge, k) => {
    const line = { name: "", colour: paint.lines[k % paint.lines.length],
      value: (i) => gaugeAt(i, k) };
    drawChart("chart-" + k, gauge.name + (gauge.unit && ` [${gauge.unit}]`), [line],
      gauge.thresholds);
  });
}
