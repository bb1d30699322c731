// Where panels and lanes stand on the canvas, and the hatches of the kinds of work.

const LINE = 14;
const FONT = '"DejaVu Sans", system-ui, sans-serif';
const ROWS = { operators: 5, launches: 0, gpu: 5 };
const HEIGHTS = { annotations: 15, operators: 17, launches: 14, gpu: 58 };

function makeLayout(data, width) {
  const wide = width > 720;
  const left = wide ? 112 : 68;
  const layout = { width, left, plot: width - left - (wide ? 182 : 8), wide, panels: [] };
  let y = 4;
  for (const panel of data.panels) {
    const place = { y, lanes: [] };
    y += wide ? 30 : 46;
    let linked = panel.links.length > 0;
    for (const lane of panel.lanes) {
      if (lane.role === "gpu" && linked) {
        y += 30;
        linked = false;
      }
      const crowded = panel.lanes.filter((other) => other.role === "gpu").length > 4 || lane.rows > 2;
      const row = lane.role === "gpu" && crowded ? 24 : HEIGHTS[lane.role];
      const room = lane.leaders ? ROWS[lane.role] * LINE + 4 : 4;
      if (lane.role === "operators") y += room;
      place.lanes.push({ y, row, tall: row * lane.rows });
      y += row * lane.rows + (lane.role === "gpu" ? room : 6);
    }
    if (panel.message) {
      place.messageY = y + 12;
      y += 26;
    }
    y = Math.max(y, wide ? place.y + 32 + panel.totals.length * 17 : y) + 24;
    place.bottom = y;
    layout.panels.push(place);
  }
  layout.axisY = y;
  layout.height = y + 40;
  return layout;
}

function hatchTile(kind, ratio) {
  const [, fill, color, pattern] = kind;
  const tile = document.createElement("canvas");
  const size = 8;
  tile.width = tile.height = size * ratio;
  const pen = tile.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = fill;
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = 0.8;
  const stroke = (...points) => {
    pen.beginPath();
    for (let i = 0; i < points.length; i += 4) {
      pen.moveTo(points[i], points[i + 1]);
      pen.lineTo(points[i + 2], points[i + 3]);
    }
    pen.stroke();
  };
  const forward = [-2, 10, 10, -2, -6, 6, 6, -6, 2, 14, 14, 2];
  const back = [-2, -2, 10, 10, -6, 2, 6, 14, 2, -6, 14, 6];
  if (pattern === "forward" || pattern === "cross") stroke(...forward);
  if (pattern === "back" || pattern === "cross") stroke(...back);
  if (pattern === "horizontal" || pattern === "grid") stroke(0, 4, 8, 4);
  if (pattern === "vertical" || pattern === "grid") stroke(4, 0, 4, 8);
  if (pattern === "dots" || pattern === "rings") {
    pen.beginPath();
    pen.arc(4, 4, pattern === "dots" ? 1.1 : 2, 0, 7);
    if (pattern === "dots") pen.fill();
    else pen.stroke();
  }
  return tile;
}

function hatchPattern(ctx, kind, ratio) {
  const made = ctx.createPattern(hatchTile(kind, ratio), "repeat");
  made.setTransform(new DOMMatrix().scale(1 / ratio));
  return made;
}
