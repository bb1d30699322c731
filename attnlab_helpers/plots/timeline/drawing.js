// Draws a view (t0 to t1, in ns) of the data on a canvas, and remembers what is where for the pointer.

class Drawing {
  constructor(canvas, data) {
    this.canvas = canvas;
    this.data = data;
    this.hits = [];
    this.widths = new Map();
  }

  resize(width) {
    this.ratio = Math.min(3, window.devicePixelRatio || 1);
    this.layout = makeLayout(this.data, width);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.layout.height * this.ratio);
    this.canvas.style.height = this.layout.height + "px";
    this.ctx = this.canvas.getContext("2d");
    this.fills = this.data.kinds.map((kind) => hatchPattern(this.ctx, kind, this.ratio));
  }

  textWidth(text) {
    if (!this.widths.has(text)) {
      if (this.widths.size > 5000) this.widths.clear();
      this.widths.set(text, this.ctx.measureText(text).width);
    }
    return this.widths.get(text);
  }

  draw(view, selected, hidden) {
    const { ctx, layout, data } = this;
    const { colors } = data;
    this.hits = [];
    this.hidden = hidden;
    this.selected = selected;
    this.x = (ns) => layout.left + ((ns - view[0]) / (view[1] - view[0])) * layout.plot;
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    ctx.fillStyle = colors.card;
    ctx.fillRect(0, 0, layout.width, layout.height);
    ctx.textBaseline = "middle";
    this.drawAxis(view);
    data.panels.forEach((panel, index) => this.drawPanel(panel, layout.panels[index], index));
  }

  // A text longer than its room loses its middle.
  text(text, x, y, { size = 11, color = this.data.colors.ink, align = "left", weight = "", room } = {}) {
    this.ctx.font = `${weight} ${size}px ${FONT}`;
    const whole = text;
    for (let n = whole.length; n > 6 && this.ctx.measureText(text).width > room; ) {
      n = Math.floor(n * 0.95);
      text = whole.slice(0, n / 2) + "\u2026" + whole.slice(-n / 2);
    }
    this.ctx.fillStyle = color;
    this.ctx.textAlign = align;
    this.ctx.fillText(text, x, y);
  }

  line(x0, y0, x1, y1, color, width = 1) {
    this.ctx.strokeStyle = color;
    this.ctx.lineWidth = width;
    this.ctx.beginPath();
    this.ctx.moveTo(x0, y0);
    this.ctx.lineTo(x1, y1);
    this.ctx.stroke();
  }

  drawAxis(view) {
    const { layout, data } = this;
    const { ticks, unit } = axisTicks(view[0], view[1], Math.max(3, Math.round(layout.plot / 110)));
    for (const [tick, text] of ticks) {
      this.line(this.x(tick), 4, this.x(tick), layout.axisY, data.colors.grid);
      this.text(text, this.x(tick), layout.axisY + 10, { color: data.colors.muted, align: "center" });
    }
    this.line(layout.left, layout.axisY, layout.left + layout.plot, layout.axisY, data.colors.faint);
    const title = `time since the first event (${unit})` + (data.panels.length > 1 ? ", one scale for all" : "");
    const middle = layout.left + layout.plot / 2;
    this.text(title, middle, layout.axisY + 28, { color: data.colors.muted, align: "center" });
  }

  drawPanel(panel, place, index) {
    const { layout, data, ctx } = this;
    const muted = { color: data.colors.muted };
    if (index) this.line(4, place.y, layout.width - 4, place.y, data.colors.grid);
    const room = layout.width - 12;
    const totals = this.hidden || panel.totals;
    this.text(panel.label, 6, place.y + 15, { size: 14, weight: "bold", room });
    if (layout.wide) {
      totals.forEach((line, row) => {
        const look = row ? { ...muted } : { size: 12.5, weight: "bold" };
        this.text(line, layout.left + layout.plot + 14, place.y + 36 + row * 17, look);
      });
    } else {
      this.text(totals.slice(0, 2).join(", "), 6, place.y + 34, muted);
    }
    panel.lanes.forEach((lane, row) => {
      const spot = place.lanes[row];
      ctx.fillStyle = data.colors.lane;
      ctx.fillRect(layout.left, spot.y, layout.plot, spot.tall);
      const lines = lane.title.split("\n");
      lines.forEach((line, i) => {
        const y = spot.y + Math.min(spot.tall, 56) / 2 + (i - (lines.length - 1) / 2) * 13;
        this.text(line, layout.left - 8, y, { ...muted, align: "right", size: layout.wide ? 11 : 9 });
      });
    });
    ctx.save();
    ctx.beginPath();
    ctx.rect(layout.left - 0.5, place.y, layout.plot + 1, place.bottom - place.y);
    ctx.clip();
    this.drawLinks(panel, place);
    this.drawGaps(panel, place);
    const wishes = panel.lanes.map((lane, row) => this.drawLane(lane, place.lanes[row], index, row));
    ctx.restore();
    panel.lanes.forEach((lane, row) => {
      if (lane.leaders) this.drawLeaders(wishes[row], lane.role, place.lanes[row]);
    });
    if (panel.message) this.text(panel.message, layout.left + 6, place.messageY, muted);
    this.text(panel.provenance, 6, place.bottom - 12, { ...muted, weight: "italic", room });
  }

  drawLinks(panel, place) {
    const { ctx, data } = this;
    const links = panel.links;
    ctx.globalAlpha = Math.max(0.06, Math.min(0.8, 240 / (links.length + 1)));
    for (let i = 0; i < links.length; i += 6) {
      const from = place.lanes[links[i]];
      const to = place.lanes[links[i + 3]];
      const y0 = from.y + (links[i + 1] + 1) * from.row - 1;
      const y1 = to.y + links[i + 4] * to.row + 1;
      this.line(this.x(links[i + 2]), y0, this.x(links[i + 5]), y1, data.colors.muted);
    }
    ctx.globalAlpha = 1;
  }

  drawGaps(panel, place) {
    const { data } = this;
    for (const [lane, start, length] of panel.gaps) {
      const spot = place.lanes[lane];
      const y = spot.y + spot.row / 2;
      const [x0, x1] = [this.x(start) + 2, this.x(start + length) - 2];
      if (x1 - x0 < 5) continue;
      this.line(x0, y, x1, y, data.colors.idle);
      for (const x of [x0, x1]) this.line(x, y - 5, x, y + 5, data.colors.idle);
      this.ctx.font = `11px ${FONT}`;
      const time = formatNs(length);
      const text = (this.hidden ? ["idle"] : ["idle " + time, time]).find((t) => this.textWidth(t) < x1 - x0 - 8);
      if (!text) continue;
      // The text stays in sight while its gap is: in the middle of the part that shows.
      const low = Math.max(x0, this.layout.left);
      const high = Math.min(x1, this.layout.left + this.layout.plot);
      const width = this.textWidth(text);
      if (high - low < width + 8) continue;
      this.ctx.fillStyle = data.colors.lane;
      this.ctx.fillRect((low + high - width) / 2 - 2, y - 7, width + 4, 14);
      this.text(text, (low + high) / 2, y, { color: data.colors.idle, align: "center" });
    }
  }

  drawLane(lane, spot, panelIndex, laneIndex) {
    const { ctx, layout } = this;
    const wishes = [];
    const edge = layout.left + layout.plot;
    for (let i = 0; i < lane.s.length; i++) {
      const x = this.x(lane.s[i]);
      const fullWidth = this.x(lane.s[i] + lane.d[i]) - x;
      const width = Math.max(1.3, fullWidth);
      if (x > edge || x + width < layout.left) continue;
      const busy = lane.b ? lane.b[i] / 100 : 1;
      const tall = Math.max(2, (spot.row - 2) * busy);
      const y = spot.y + (lane.r[i] + 1) * spot.row - 1 - tall;
      this.drawBar(lane, i, x, y, width, tall);
      const key = [panelIndex, laneIndex, i];
      this.hits.push([x, y, width, tall, key]);
      const seen = [Math.max(x, layout.left), Math.min(x + width, edge)];
      const wish = this.labelBar(lane, i, seen, y, tall, spot);
      if (wish) wishes.push({ x: (seen[0] + seen[1]) / 2, weight: width, bottom: y + tall, top: y, ...wish });
      if (this.selected && this.selected.join() === key.join()) {
        ctx.strokeStyle = this.data.colors.ink;
        ctx.lineWidth = 2.5;
        ctx.strokeRect(x - 1.5, y - 1.5, width + 3, tall + 3);
      }
    }
    return wishes;
  }

  look(lane, i) {
    const { data } = this;
    if (lane.role === "operators") {
      const fills = data.colors.operators;
      return [fills[Math.min(lane.r[i], fills.length - 1)], data.colors.operatorEdge];
    }
    if (lane.role === "annotations") return [data.colors.card, data.colors.faint];
    if (lane.role === "launches") {
      return lane.k[i] ? [data.colors.wait, data.colors.faint] : [data.colors.launch, data.colors.launch];
    }
    if (this.hidden) return [data.colors.hidden, data.colors.muted];
    return [this.fills[lane.k[i]], data.kinds[lane.k[i]][2]];
  }

  drawBar(lane, i, x, y, width, tall) {
    const { ctx } = this;
    const [fill, edge] = this.look(lane, i);
    ctx.fillStyle = width < 3 && lane.s.length < 300 ? edge : fill;
    ctx.fillRect(x, y, width, tall);
    if (width >= 3) {
      ctx.strokeStyle = edge;
      ctx.lineWidth = 0.8;
      ctx.strokeRect(x + 0.4, y + 0.4, width - 0.8, tall - 0.8);
    }
  }

  // Writes the label when the bar holds it; else gives back the text that wants a leader.
  labelBar(lane, i, seen, y, tall, spot) {
    const { ctx } = this;
    const room = seen[1] - seen[0] - 8;
    ctx.font = `11px ${FONT}`;
    const merged = lane.c ? lane.c[i] : 1;
    if (merged > 1) return null;
    const lines = this.linesFor(lane, i);
    const text = lines.join(lane.role === "gpu" ? " \u00b7 " : " ");
    const most = Math.max(1, Math.floor((spot.row - 4) / 13));
    const wrapped = this.wrap(lines, room, most) || this.wrap([lines.join(" ")], room, most);
    if (wrapped) {
      const middle = (seen[0] + seen[1]) / 2;
      const widest = Math.max(...wrapped.map((line) => this.textWidth(line)));
      if (lane.role === "gpu") {
        // The hatch stops behind the text.
        ctx.fillStyle = this.hidden ? this.data.colors.hidden : this.data.kinds[lane.k[i]][1];
        ctx.fillRect(middle - widest / 2 - 2, y + tall / 2 - wrapped.length * 6.5, widest + 4, wrapped.length * 13);
      }
      wrapped.forEach((line, row) => {
        const at = y + tall / 2 + (row - (wrapped.length - 1) / 2) * 13;
        this.text(line, middle, at, { align: "center" });
      });
      return null;
    }
    if (lane.role === "gpu" && this.textWidth(lines[0].split(" ")[0]) < room + 4) {
      this.text(lines[0].split(" ")[0], (seen[0] + seen[1]) / 2, y + tall / 2, { align: "center" });
    }
    if (!lane.leaders || (lane.role !== "gpu" && (this.hidden || lane.r[i] !== 0))) return null;
    const inner = lane.u && lane.u[i] >= 0 ? " > " + this.data.details[lane.u[i]] : "";
    return { text: text + inner, width: this.textWidth(text + inner) };
  }

  label(name) {
    return this.data.labels[name] || this.data.names[name];
  }

  linesFor(lane, i) {
    if (lane.role === "launches") return lane.k[i] ? ["waits"] : [""];
    if (lane.role !== "gpu") return [this.hidden ? "" : this.label(lane.n[i])];
    if (this.hidden) return ["?" + lane.i[i]];
    return [lane.i[i] + " " + this.label(lane.n[i]), formatNs(lane.d[i])];
  }

  wrap(parts, room, most) {
    const lines = [];
    for (const part of parts) {
      let line = "";
      for (const word of part.split(" ")) {
        if (this.textWidth(word) > room) return null;
        const longer = line ? line + " " + word : word;
        if (line && this.textWidth(longer) > room) {
          lines.push(line);
          line = word;
        } else line = longer;
      }
      lines.push(line);
    }
    return lines.length <= most ? lines : null;
  }

  drawLeaders(wishes, role, spot) {
    const { layout, data } = this;
    const heavy = wishes.sort((a, b) => b.weight - a.weight).slice(0, 40);
    const up = role === "operators";
    for (const spotted of placeLeaders(heavy, ROWS[role], 4, layout.left + layout.plot)) {
      const away = 6 + (spotted.row + 0.5) * LINE;
      const y = up ? spot.y - away : spot.y + spot.tall + away;
      this.line(spotted.x, up ? spotted.top : spotted.bottom, spotted.x, y, data.colors.faint, 0.8);
      this.text(spotted.text, spotted.left, y);
    }
  }

  // The topmost thing at a point; thin bars get a little room around them.
  at(x, y) {
    for (const slack of [0, 3]) {
      for (let i = this.hits.length - 1; i >= 0; i--) {
        const [left, top, width, tall, key] = this.hits[i];
        if (x >= left - slack && x <= left + width + slack && y >= top && y <= top + tall) return key;
      }
    }
    return null;
  }
}
