// Puts source and stage side by side: pick a target and a stage, point at a line, see its other side.

class Stages {
  constructor(figure, data) {
    this.figure = figure;
    this.data = data;
    this.item = 0;
    this.stage = data.stage;
    this.line = null;
    this.kept = false;
    // A page saved by a browser brings the panes of its last visit along.
    figure.querySelectorAll(":scope>.attnlab-stages-live").forEach((old) => old.remove());
    this.root = make("div", null, { className: "attnlab-stages-live" });
    this.root.dataset.lmSuppressShortcuts = "true"; // JupyterLab: the keys are ours while focused
    make("style", this.root, { textContent: STYLE });
    this.bar = make("div", this.root, { className: "bar" });
    const panes = make("div", this.root, { className: "panes" });
    this.source = new Pane(panes, "source");
    this.code = new Pane(panes, "stage");
    this.word = make("div", this.root, { className: "say" });
    this.word.setAttribute("role", "status");
    this.buttons();
    this.fill();
    this.listen(this.source, this.code);
    this.listen(this.code, this.source);
    // As high as the longest source and a little more, so that a short one leaves no empty field.
    const sources = [...figure.querySelectorAll('pre[data-stage=""]')];
    const longest = Math.max(...sources.map((one) => one.textContent.split("\n").length));
    const rows = Math.max(LEAST_ROWS, Math.min(MOST_ROWS, longest + 2));
    this.root.style.setProperty("--high", rows * ROW_HEIGHT + 8 + "px");
    figure.insertBefore(this.root, figure.firstChild);
    figure.classList.add("attnlab-stages-are-live");
  }

  still(item, stage) {
    const all = [...this.figure.querySelectorAll("pre[data-of]")];
    return all.find((one) => one.dataset.stage === stage && one.dataset.of.split(" ").includes(String(item)));
  }

  buttons() {
    const group = (name, texts, pressed, act) => {
      const box = make("div", this.bar, { className: "group" });
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", name);
      make("span", box, { textContent: name });
      return texts.map((text, i) => {
        const button = make("button", box, { type: "button", textContent: text });
        button.addEventListener("click", () => act(i));
        return button;
      });
    };
    const { title, labels, stages, group: kind } = this.data;
    make("strong", this.bar, { textContent: title });
    this.items = labels.length > 1 ? group(kind, labels, 0, (i) => this.pick(i, this.stage)) : [];
    this.tabs = group("stage", stages, 0, (i) => this.pick(this.item, stages[i]));
  }

  // Keeps the line that the reader was at: it is the same source line in another stage.
  pick(item, stage) {
    const sameSource = this.still(item, "") === this.still(this.item, "");
    const { line, kept } = this;
    this.item = item;
    this.stage = this.still(item, stage) ? stage : this.data.stages.find((one) => this.still(item, one));
    this.fill();
    if (sameSource && kept) this.link(line, true, this.source);
  }

  fill() {
    const still = this.still(this.item, this.stage);
    const made = new Map();
    for (const text of still.textContent.split("\n")) {
      const number = +text.slice(0, text.indexOf("|")) || null;
      if (number) made.set(number, (made.get(number) || 0) + 1);
    }
    const hues = new Map([...made.keys()].sort((a, b) => a - b).map((number, i) => [number, i % HUES]));
    this.source.fill(this.still(this.item, ""), hues, made);
    this.code.fill(still, hues, null);
    this.made = made;
    this.total = [...made.values()].reduce((sum, count) => sum + count, 0);
    const whose = this.data.labels.length > 1 ? ` for ${this.data.labels[this.item]}` : "";
    const bold = this.data.bold.includes(this.stage) ? "; bold: memory, tensor cores, barriers" : "";
    this.title(this.source, this.data.sources[this.item], `line, \u00d7 lines of ${this.stage} it became`);
    this.title(this.code, this.stage + whose, "source line in front" + bold);
    this.items.forEach((button, i) => button.setAttribute("aria-pressed", String(i === this.item)));
    this.tabs.forEach((button, i) => {
      const name = this.data.stages[i];
      button.disabled = !this.still(this.item, name);
      button.setAttribute("aria-pressed", String(name === this.stage));
    });
    this.note = still.dataset.note || "";
    this.link(null, false, null);
  }

  title(pane, name, more) {
    pane.head.textContent = "";
    make("b", pane.head, { textContent: name });
    pane.head.append(" \u2013 " + more);
    pane.pre.setAttribute("aria-label", name + ": " + more);
  }

  // Marks both sides; the side that the reader is not at scrolls to the line's first place.
  link(number, kept, from) {
    this.line = number;
    this.kept = kept;
    this.step = 0;
    this.source.mark(number);
    this.code.mark(number);
    for (const pane of [this.source, this.code]) {
      const places = pane.places(number);
      if (pane !== from && places.length && !places.some((i) => pane.inSight(i))) pane.show(places[0]);
    }
    this.say(from);
  }

  say(from) {
    const count = this.made.get(this.line) || 0;
    let text = `${this.made.size} source lines became ${this.total} lines of ${this.stage}.`;
    if (this.line) {
      text = `Source line ${this.line} became ${count} of ${this.total} lines of ${this.stage}.`;
      if (!count) text = `Source line ${this.line} has no line of ${this.stage} of its own.`;
      if (this.step) text += ` Shown: ${this.step} of ${count}.`;
    } else if (from) text = `This line of ${this.stage} belongs to no line of the source.`;
    this.word.textContent = text + (this.note ? " " + this.note : "");
    make("small", this.word, { textContent: HELP });
  }

  listen(pane, other) {
    pane.pre.addEventListener("mousemove", (event) => {
      const i = pane.find(event);
      if (this.kept || i < 0 || i === this.hovered) return;
      this.hovered = i;
      this.link(pane.rows[i].number, false, pane);
    });
    pane.pre.addEventListener("mouseleave", () => {
      this.hovered = -1;
      if (!this.kept) this.link(null, false, null);
    });
    pane.pre.addEventListener("click", (event) => {
      const i = pane.find(event);
      if (i < 0 || String(document.getSelection())) return; // the reader is copying text
      const { number } = pane.rows[i];
      const again = this.kept && number === this.line && pane.at === i;
      pane.go(again ? -1 : i);
      this.link(number, !again && number !== null, pane);
    });
    pane.pre.addEventListener("keydown", (event) => this.key(event, pane, other));
  }

  key(event, pane, other) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = pane.rows.length - 1;
    const to = (i) => {
      const place = Math.max(0, Math.min(last, i));
      pane.go(place);
      this.link(pane.rows[place].number, true, pane);
    };
    const cross = () => {
      const places = other.places(this.line);
      other.pre.focus({ preventScroll: true });
      if (!places.length) return;
      pane.go(-1);
      other.go(places.find((i) => other.inSight(i)) || places[0]);
      this.link(this.line, true, other);
    };
    const acts = {
      ArrowDown: () => to(pane.at + 1),
      ArrowUp: () => to(pane.at < 0 ? last : pane.at - 1),
      PageDown: () => to(pane.at + 15),
      PageUp: () => to(pane.at - 15),
      Home: () => to(0),
      End: () => to(last),
      ArrowRight: pane === this.source ? cross : null,
      ArrowLeft: pane === this.code ? cross : null,
      Enter: () => this.next(pane, other),
      Escape: () => {
        pane.go(-1);
        other.go(-1);
        this.link(null, false, null);
      },
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }

  // The next of the line's places on the other side, round and round.
  next(pane, other) {
    const places = other.places(this.line);
    if (!places.length) return;
    const step = this.step % places.length;
    other.go(places[step]);
    this.step = step + 1;
    this.say(pane);
  }
}

function start() {
  for (const figure of document.querySelectorAll("figure.attnlab-stages")) {
    const block = figure.querySelector('script[type="application/json"]');
    if (figure.attnlabLive || !block) continue;
    figure.attnlabLive = true;
    try {
      new Stages(figure, JSON.parse(block.textContent));
    } catch (error) {
      // The texts stay, complete; the reason is in the console.
      figure.classList.remove("attnlab-stages-are-live");
      figure.querySelectorAll(":scope>.attnlab-stages-live").forEach((half) => half.remove());
      console.warn("attnlab stages stay as text:", error);
    }
  }
}

start();
document.addEventListener("DOMContentLoaded", start);
