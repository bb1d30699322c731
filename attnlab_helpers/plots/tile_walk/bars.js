// The weights of one query so far, a bar for each key, and its numbers in a table.

class Bars {
  constructor(parent, data) {
    this.data = data;
    const last = data.keys[data.keys.length - 1];
    this.count = last[0] + last[1];
    this.caption = make("small", parent, {});
    this.svg = draw("svg", parent, { viewBox: "0 0 " + this.count + " 1", preserveAspectRatio: "none", class: "attnlab-walk-bars", "aria-hidden": "true" });
    this.band = draw("rect", this.svg, { y: 0, height: 1, fill: data.colors.kvFill, opacity: 0.6 });
    this.bars = [];
    for (let key = 0; key < this.count; key++) {
      this.bars.push(draw("rect", this.svg, { x: key + 0.06, y: 0, width: 0.88, height: 1, fill: data.colors.out, class: "bar", style: "transform:scaleY(0)" }));
    }
    this.names = make("div", parent, { className: "attnlab-walk-tiles" });
    this.names.setAttribute("aria-hidden", "true");
    this.tiles = data.keys.map(([, count], tile) => {
      const name = make("span", this.names, { textContent: "tile " + tile });
      name.style.flexGrow = count;
      return name;
    });
  }

  show(walk, frame) {
    const { data } = this;
    // In "scores" m is new already: the older bars are rescaled and the tile's appear.
    const seen = frame.p === END ? data.keys.length : frame.t === null ? 0 : frame.t + (frame.p === SCORES || frame.p === UPDATE ? 1 : 0);
    const stop = seen ? data.keys[seen - 1][0] + data.keys[seen - 1][1] : 0;
    this.bars.forEach((bar, key) => {
      const score = walk.scores[key];
      const high = key < stop && score !== null && frame.m !== null ? Math.min(1, Math.exp(score - frame.m)) : 0;
      bar.style.transform = "scaleY(" + high.toFixed(4) + ")";
    });
    const sum = { [SCORES]: "with this tile their sum will be l", [END]: "their sum is l; divided by it they are the attention weights" }[frame.p];
    this.caption.textContent = "exp(score \u2212 m) of query " + data.watched[0] + " for each key, from 0 to 1: " + (sum || "their sum is l");
    const now = frame.t === null ? [0, 0] : data.keys[frame.t];
    this.band.setAttribute("x", now[0]);
    this.band.setAttribute("width", now[1]);
    this.tiles.forEach((name, tile) => name.classList.toggle("now", tile === frame.t));
  }
}

class Numbers {
  constructor(parent, data) {
    this.data = data;
    const table = make("table", parent, {});
    this.cells = [];
    this.heads = [];
    data.columns.forEach((column, line) => {
      const row = make("tr", table, {});
      const head = make("th", row, { scope: "row", textContent: column });
      this.heads.push(head);
      const cells = data.watched.map((token, place) => {
        const cell = make(line ? "td" : "th", row, { textContent: line ? "" : token });
        if (!place) cell.classList.add("followed");
        return cell;
      });
      if (line) this.cells.push(cells);
    });
  }

  show(frame, before) {
    this.cells.forEach((cells, line) =>
      cells.forEach((cell, place) => {
        const text = frame.n[place][line];
        cell.textContent = text;
        cell.classList.toggle("new", text !== "" && before !== null && text !== before.n[place][line]);
      })
    );
    // At the end what stands in the lines of acc has been divided.
    this.heads.forEach((head, line) => {
      if (line > 3) head.textContent = frame.p === END ? this.data.columns[line].replace("acc", "out") : this.data.columns[line];
    });
  }
}

// The tile at work, large enough to see its numbers as shades.
class Zoom {
  constructor(parent, scene) {
    this.scene = scene;
    const box = make("div", parent, { className: "attnlab-walk-zoom" });
    box.setAttribute("aria-hidden", "true");
    this.image = make("img", box, { alt: "" });
    this.note = make("small", box, {});
  }

  show(walk, frame) {
    const which = { [SCORES]: 0, [UPDATE]: 1 }[frame.p];
    this.image.style.visibility = which === undefined ? "hidden" : "visible";
    if (which !== undefined) this.image.src = this.scene.pixels(walk, frame.t, which);
    const hidden = walk.states[frame.t] === "masked in part" ? ", grey hidden" : "";
    const what = ["scores: dark is high" + hidden, "exp(score \u2212 m): dark is 1" + hidden][which];
    this.note.textContent = what ? "tile " + frame.t + ", " + what : "no scores in SRAM now";
  }
}
