// The two memories: the tokens in HBM at the left, the one tile of scores in SRAM at the right.

const SIDE = 224;
const PHOTO = [19, 34];
const MATRIX = [397, 34];
const [START, LOAD, SCORES, UPDATE, SKIP, END] = [0, 1, 2, 3, 4, 5];

class Scene {
  constructor(parent, data) {
    this.data = data;
    this.colors = data.colors;
    this.cell = SIDE / Math.max(data.grid[0], data.grid[1]);
    const last = data.keys[data.keys.length - 1];
    this.unit = SIDE / Math.max(last[0] + last[1], data.length);
    this.width = (last[0] + last[1]) * this.unit;
    this.height = data.length * this.unit;
    this.svg = draw("svg", parent, { viewBox: "0 0 640 300", role: "img" });
    this.memories();
    this.moving = draw("g", this.svg, {});
    this.urls = {};
  }

  box(parent, [x, y, width, height], attributes) {
    const size = this.cell;
    const place = { x: PHOTO[0] + x * size, y: PHOTO[1] + y * size, width: width * size, height: height * size };
    return draw("rect", parent, Object.assign(place, attributes));
  }

  memories() {
    const { svg, data, colors } = this;
    const panel = (x, text) => {
      draw("rect", svg, { x, y: 1, width: 262, height: 298, rx: 6, fill: colors.lane, stroke: colors.faint });
      draw("text", svg, { x: x + 18, y: 23, style: "font-weight:bold" }, text);
    };
    panel(0, "HBM: q, k, v of " + data.grid[2] + " tokens");
    panel(378, "SRAM: one tile of scores");
    const [rows, columns] = data.grid;
    if (data.photo) {
      const place = { href: data.photo, x: PHOTO[0], y: PHOTO[1], width: columns * this.cell, height: rows * this.cell, preserveAspectRatio: "none" };
      draw("image", svg, Object.assign({ style: "filter:grayscale(1);opacity:.4" }, place));
      const name = "attnlab-walk-" + Math.random().toString(36).slice(2);
      this.clip = draw("clipPath", svg, { id: name });
      draw("image", svg, Object.assign({ "clip-path": "url(#" + name + ")" }, place));
    } else this.box(svg, [0, 0, columns, rows], { fill: colors.card });
    const lines = draw("g", svg, { stroke: colors.faint, "stroke-width": 0.5, opacity: 0.6 });
    for (let row = 0; row <= rows; row++) this.line(lines, 0, row, columns, row);
    for (let column = 0; column <= columns; column++) this.line(lines, column, 0, column, rows);
    // The whole matrix is a ghost: dashed lines where other tiles would be.
    const ghost = draw("g", svg, { stroke: colors.faint, "stroke-width": 0.6, "stroke-dasharray": "2 3", fill: "none" });
    const [x, y] = MATRIX;
    const rowsOfTiles = data.queries[1];
    draw("rect", ghost, { x, y, width: this.width, height: this.height, fill: colors.card });
    for (const [start] of data.keys.slice(1)) {
      draw("line", ghost, { x1: x + start * this.unit, x2: x + start * this.unit, y1: y, y2: y + this.height });
    }
    for (let row = data.queries[0] % rowsOfTiles || rowsOfTiles; row < data.length; row += rowsOfTiles) {
      draw("line", ghost, { x1: x, x2: x + this.width, y1: y + row * this.unit, y2: y + row * this.unit });
    }
    const quiet = { "text-anchor": "middle", style: "font-size:10px;fill:" + colors.muted };
    draw("text", svg, Object.assign({ x: x + this.width / 2, y: y + this.height + 12 }, quiet), "keys");
    // Beside the half of the matrix that the block is not in.
    const half = data.queries[0] + data.queries[1] / 2 < data.length / 2 ? 0.8 : 0.2;
    const turned = "translate(" + (x - 5) + " " + (y + half * this.height) + ") rotate(-90)";
    draw("text", svg, Object.assign({ transform: turned }, quiet), "queries");
    this.read = draw("text", svg, { x: 18, y: 285 });
    this.kept = draw("text", svg, { x: 396, y: 285 });
  }

  line(parent, x1, y1, x2, y2) {
    const [left, top] = PHOTO;
    const size = this.cell;
    draw("line", parent, { x1: left + x1 * size, y1: top + y1 * size, x2: left + x2 * size, y2: top + y2 * size });
  }

  show(walk, frame) {
    const { data, colors, moving } = this;
    moving.replaceChildren();
    const lit = frame.t !== null && frame.p !== SKIP ? data.keyBoxes[frame.t] : [];
    if (this.clip) {
      this.clip.replaceChildren();
      for (const box of lit) this.box(this.clip, box, {});
    } else for (const box of lit) this.box(moving, box, { fill: colors.kvFill });
    for (const box of data.queryBoxes) this.box(moving, box, { fill: "none", stroke: colors.q, "stroke-width": 3 });
    // Inside the blue line, so that both are seen where the block meets its own keys.
    const inset = 2.5 / this.cell;
    for (const [x, y, width, height] of lit) {
      this.box(moving, [x + inset, y + inset, width - 2 * inset, height - 2 * inset], { fill: "none", stroke: colors.kv, "stroke-width": 3 });
    }
    this.token(data.watched[0]);
    this.tiles(walk, frame);
    this.arrow(frame);
    this.read.textContent = "read so far: " + frame.r + (frame.p === END ? ", written: " + frame.w : "");
    this.kept.textContent = "scores written to HBM: 0 B";
    const alt = frame.h + ". " + frame.x;
    this.svg.setAttribute("aria-label", alt);
  }

  // The query that is told about: a dot in its patch and a line in the matrix.
  token(place) {
    const { data, moving, colors } = this;
    const x = place % data.grid[1];
    const y = Math.floor(place / data.grid[1]);
    if (place >= data.grid[2]) return;
    draw("circle", moving, { cx: PHOTO[0] + (x + 0.5) * this.cell, cy: PHOTO[1] + (y + 0.5) * this.cell, r: Math.min(4, this.cell / 3), fill: colors.q, stroke: "#fff" });
  }

  tiles(walk, frame) {
    const { data, moving, colors, unit } = this;
    const y = MATRIX[1] + data.queries[0] * unit;
    const height = data.queries[1] * unit;
    data.keys.forEach(([start, count], tile) => {
      const place = { x: MATRIX[0] + start * unit, y, width: count * unit, height };
      const now = tile === frame.t;
      const done = frame.p === END || (frame.t !== null && tile < frame.t);
      const skipped = walk.states[tile] === "skipped" && (done || now);
      if (done && !skipped) draw("rect", moving, Object.assign({ fill: colors.hidden, stroke: colors.faint, "stroke-width": 0.6 }, place));
      if (skipped) {
        const cross = { stroke: colors.muted, "stroke-width": 1 };
        draw("line", moving, Object.assign({ x1: place.x, y1: y, x2: place.x + place.width, y2: y + height }, cross));
        draw("line", moving, Object.assign({ x1: place.x, y1: y + height, x2: place.x + place.width, y2: y }, cross));
      }
      if (!now || frame.p === SKIP) return;
      if (frame.p !== LOAD) {
        const url = this.pixels(walk, tile, frame.p === UPDATE ? 1 : 0);
        draw("image", moving, Object.assign({ href: url, preserveAspectRatio: "none", style: "image-rendering:pixelated" }, place));
      }
      draw("rect", moving, Object.assign({ fill: "none", stroke: colors.kv, "stroke-width": 3 }, place));
    });
    draw("rect", moving, { x: MATRIX[0], y, width: this.width, height, fill: "none", stroke: colors.q, "stroke-width": 2 });
    const told = y + (data.watched[0] - data.queries[0] + 0.5) * unit;
    draw("path", moving, { d: "M" + (MATRIX[0] - 8) + " " + (told - 4) + "l7 4l-7 4z", fill: colors.q });
    const note = frame.p === SCORES ? "scores" : frame.p === UPDATE ? "exp(score \u2212 m)" : "";
    // Where there is room: above the block, or below it.
    const above = data.queries[0] * unit > 24;
    if (note) draw("text", moving, { x: MATRIX[0] + (data.keys[frame.t][0] + data.keys[frame.t][1] / 2) * unit, y: above ? y - 7 : y + height + 15, "text-anchor": frame.t === 0 ? "start" : frame.t === data.keys.length - 1 ? "end" : "middle", style: "paint-order:stroke;stroke:#fff;stroke-width:4px" }, note);
  }

  arrow(frame) {
    const words = { [START]: ["Q", this.colors.q], [LOAD]: ["K, V", this.colors.kv], [END]: ["acc / l", this.colors.out] }[frame.p];
    if (!words) return;
    const [word, color] = words;
    const tip = frame.p === END ? "M372 160H284V146L266 166L284 186V172H372z" : "M268 160H356V146L374 166L356 186V172H268z";
    draw("path", this.moving, { d: tip, fill: color });
    draw("text", this.moving, { x: 320, y: 138, "text-anchor": "middle", style: "font-weight:bold;fill:" + color }, word);
    if (frame.t !== null) draw("text", this.moving, { x: 320, y: 206, "text-anchor": "middle" }, "tile " + frame.t);
  }

  // One byte a number: 0 is hidden, 1 to 255 pale to dark, blue for scores and green for weights.
  pixels(walk, tile, which) {
    const name = walk.name + tile + "," + which;
    if (this.urls[name]) return this.urls[name];
    const bytes = atob(walk.tiles[tile][which]);
    const canvas = document.createElement("canvas");
    canvas.height = walk.rows;
    canvas.width = bytes.length / walk.rows;
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(canvas.width, canvas.height);
    const [pale, dark] = which ? [[232, 246, 240], [0, 84, 60]] : [[238, 245, 251], [8, 64, 129]];
    for (let i = 0; i < bytes.length; i++) {
      const value = bytes.charCodeAt(i);
      const share = (value - 1) / 254;
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = value ? pale[c] + (dark[c] - pale[c]) * share : 196;
      image.data[4 * i + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
    return (this.urls[name] = canvas.toDataURL());
  }
}
