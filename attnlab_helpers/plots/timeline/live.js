// Turns each still figure of the page into a live canvas: pointer, keyboard, names on demand.

class Live {
  constructor(figure, data) {
    this.data = data;
    this.hidden = data.guess;
    this.all = [0, data.span * 1.01];
    this.view = this.all.slice();
    this.selected = null;
    // A page saved by a browser brings the canvas of its last visit along.
    figure.querySelectorAll(":scope>.attnlab-live").forEach((old) => old.remove());
    this.root = document.createElement("div");
    this.root.className = "attnlab-live";
    this.root.dataset.lmSuppressShortcuts = "true"; // JupyterLab: the keys are ours while focused
    make("style", this.root, { textContent: STYLE });
    this.makeBar();
    this.canvas = make("canvas", this.root, { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.images = figure.querySelectorAll(":scope>img,:scope>details>img");
    this.say(0);
    this.tip = make("div", this.root, { className: "attnlab-tip", hidden: true });
    this.detail = make("div", this.root, { className: "attnlab-detail", hidden: true });
    this.detail.setAttribute("role", "status");
    make("div", this.root, { className: "attnlab-bar attnlab-help", textContent: HELP });
    figure.insertBefore(this.root, figure.firstChild);
    figure.classList.add("attnlab-is-live");
    this.drawing = new Drawing(this.canvas, data);
    this.order = this.walkOrder();
    this.listen();
    this.fit();
    new ResizeObserver(() => this.fit()).observe(this.root);
  }

  makeBar() {
    if (this.bar) this.bar.remove();
    const bar = (this.bar = document.createElement("div"));
    bar.className = "attnlab-bar";
    this.root.insertBefore(bar, this.root.children[1] || null);
    if (this.data.title) make("strong", bar, { textContent: this.data.title });
    const button = (text, label, act) => {
      const made = make("button", bar, { type: "button", textContent: text, title: label });
      made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
    };
    button("\u2212", "zoom out", () => this.zoom(1.5));
    button("+", "zoom in", () => this.zoom(1 / 1.5));
    button("all", "show the whole picture", () => this.show(this.all));
    if (this.hidden) {
      button("Show the names", "show names, totals and times", () => this.reveal());
      return;
    }
    for (const kind of this.data.kinds) {
      const entry = make("span", bar, {});
      const swatch = hatchTile(kind, 1).toDataURL();
      make("i", entry, {}).style.cssText = `background:url(${swatch});border:1px solid ${kind[2]}`;
      entry.append(kind[0]);
    }
    if (this.data.signs) make("span", bar, { className: "attnlab-help", textContent: this.data.signs });
  }

  // What the canvas shows, for those who do not see it: as the picture shown, or the answer's.
  say(image) {
    this.canvas.setAttribute("aria-label", this.images[image].alt + " " + HELP);
  }

  reveal() {
    this.hidden = false;
    this.say(1);
    this.makeBar();
    this.redraw();
    this.canvas.focus();
  }

  walkOrder() {
    const order = [];
    for (const role of ["gpu", "operators"]) {
      this.data.panels.forEach((panel, p) => {
        const inPanel = [];
        panel.lanes.forEach((lane, l) => {
          if (lane.role === role) lane.s.forEach((start, i) => inPanel.push([start, [p, l, i]]));
        });
        inPanel.sort((a, b) => a[0] - b[0]);
        order.push(...inPanel.map((pair) => pair[1]));
      });
      if (order.length) break;
    }
    return order;
  }

  fit() {
    const width = this.root.clientWidth;
    if (width < 50 || width === this.width) return;
    this.width = width;
    this.drawing.resize(width);
    this.redraw();
  }

  redraw() {
    if (!this.width || this.queued) return;
    this.queued = requestAnimationFrame(() => {
      this.queued = null;
      this.drawing.draw(this.view, this.selected, this.hidden);
    });
  }

  show([t0, t1]) {
    const whole = this.all[1];
    const span = Math.min(whole, Math.max(20, t1 - t0));
    const start = Math.min(Math.max(0, t0), whole - span);
    this.view = [start, start + span];
    this.tip.hidden = true;
    this.canvas.dataset.view = this.view.map((t) => Math.round(t)).join(" ");
    this.redraw();
  }

  // Around a place in the view (0 left, 1 right); without one around the selected bar, if in sight.
  zoom(factor, share) {
    const [t0, t1] = this.view;
    const [start, end] = this.selected ? this.extent(this.selected) : [t0, t1];
    const inSight = start < t1 && end > t0;
    const middle = inSight ? (Math.max(start, t0) + Math.min(end, t1)) / 2 : (t0 + t1) / 2;
    const center = share === undefined ? middle : t0 + (t1 - t0) * share;
    this.show([center - (center - t0) * factor, center + (t1 - center) * factor]);
  }

  pan(share) {
    const step = (this.view[1] - this.view[0]) * share;
    this.show([this.view[0] + step, this.view[1] + step]);
  }

  extent([p, l, i]) {
    const lane = this.data.panels[p].lanes[l];
    return [lane.s[i], lane.s[i] + lane.d[i]];
  }

  describe([p, l, i]) {
    const lane = this.data.panels[p].lanes[l];
    const lines = [];
    const merged = lane.c ? lane.c[i] : 1;
    if (merged > 1) {
      lines.push(`${merged.toLocaleString("en")} narrow events drawn as one, busy ${lane.b[i]} % of the time`);
      if (lane.role === "gpu" && !this.hidden) lines.push("mostly " + this.data.kinds[lane.k[i]][0]);
    }
    else if (this.hidden) lines.push(lane.role === "gpu" ? "?" + lane.i[i] : "?");
    else lines.push(this.data.names[lane.n[i]]);
    if (this.hidden) return lines.join("\n");
    lines.push(`starts at ${formatNs(lane.s[i])}, takes ${formatNs(lane.d[i])}`);
    const detail = lane.t && lane.t[i] >= 0 && this.data.details[lane.t[i]];
    if (detail) lines.push(detail);
    const inner = lane.u && lane.u[i] >= 0 && this.data.details[lane.u[i]];
    if (inner) lines.push("launches from " + inner);
    const origin = lane.o && lane.o[i] >= 0 && this.data.details[lane.o[i]];
    if (origin) lines.push("launched by " + origin);
    return lines.join("\n");
  }

  select(key) {
    this.selected = key;
    this.detail.hidden = this.detail.hidden || !key;
    if (key) {
      const [start, end] = this.extent(key);
      const half = (this.view[1] - this.view[0]) / 2;
      const middle = (start + end) / 2;
      if (start < this.view[0] || end > this.view[1]) this.show([middle - half, middle + half]);
      this.detail.textContent = this.describe(key);
      const { left, plot, panels } = this.drawing.layout;
      const seen = (Math.max(start, this.view[0]) + Math.min(end, this.view[1])) / 2;
      const spot = panels[key[0]].lanes[key[1]];
      this.hover(this.detail.hidden ? key : null, left + ((seen - this.view[0]) / (2 * half)) * plot, spot.y + spot.tall);
    } else this.tip.hidden = true;
    this.redraw();
  }

  hover(key, x, y) {
    this.tip.hidden = !key;
    if (!key) return;
    this.tip.textContent = this.describe(key);
    const wide = this.tip.offsetWidth;
    this.tip.style.left = Math.max(4, Math.min(this.width - wide - 4, x + 12)) + "px";
    this.tip.style.top = this.canvas.offsetTop + y + 16 + "px";
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  listen() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = { x: event.clientX, view: this.view, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = this.point(event);
      if (!drag) return this.hover(this.drawing.at(x, y), x, y);
      const moved = event.clientX - drag.x;
      drag.moved = drag.moved || Math.abs(moved) > 3;
      const step = (moved / this.drawing.layout.plot) * (drag.view[1] - drag.view[0]);
      if (drag.moved) this.show([drag.view[0] - step, drag.view[1] - step]);
    });
    const drop = (event) => {
      if (drag && !drag.moved && event.type === "pointerup") {
        const key = this.drawing.at(...this.point(event));
        this.detail.hidden = !key;
        this.select(key);
      }
      drag = null;
    };
    canvas.addEventListener("pointerup", drop);
    canvas.addEventListener("pointercancel", drop);
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("dblclick", () => this.show(this.all));
    // The wheel scrolls the page until the reader has clicked the picture, or holds Ctrl.
    const wheel = (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan(sideways / 1000);
      const share = (this.point(event)[0] - this.drawing.layout.left) / this.drawing.layout.plot;
      this.zoom(Math.exp(event.deltaY * 0.002), Math.min(1, Math.max(0, share)));
    };
    canvas.addEventListener("wheel", wheel, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => (this.released = false));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      ArrowUp: () => this.zoom(1 / 1.3),
      ArrowDown: () => this.zoom(1.3),
      "+": () => this.zoom(1 / 1.3),
      "=": () => this.zoom(1 / 1.3),
      "-": () => this.zoom(1.3),
      0: () => this.show(this.all),
      Home: () => this.show(this.all),
      Enter: () => this.toggleDetail(),
      Escape: () => {
        this.released = true; // so that the next Tab leaves the picture
        this.select(null);
      },
      Tab: () => this.step(event.shiftKey ? -1 : 1),
    };
    const act = acts[event.key];
    if (!act || act() === false) return;
    event.preventDefault();
    event.stopPropagation();
  }

  toggleDetail() {
    if (!this.selected) return false;
    this.detail.hidden = !this.detail.hidden;
    this.tip.hidden = true;
  }

  // To the next activity; false past the ends or after Escape, and Tab then moves on in the page.
  step(by) {
    const at = this.selected ? this.order.findIndex((key) => key.join() === this.selected.join()) : -1;
    const next = this.selected ? at + by : by > 0 ? 0 : -1;
    if (this.released || next < 0 || next >= this.order.length) {
      this.select(null);
      return false;
    }
    this.select(this.order[next]);
  }
}

function start() {
  for (const figure of document.querySelectorAll("figure.attnlab-timeline")) {
    const block = figure.querySelector('script[type="application/json"]');
    if (figure.attnlabLive || !block) continue;
    figure.attnlabLive = true;
    try {
      new Live(figure, JSON.parse(block.textContent));
    } catch (error) {
      // The still picture stays, complete; the reason is in the console.
      figure.classList.remove("attnlab-is-live");
      figure.querySelectorAll(":scope>.attnlab-live").forEach((half) => half.remove());
      console.warn("attnlab timeline stays a picture:", error);
    }
  }
}

start();
document.addEventListener("DOMContentLoaded", start);
