// Turns each strip of the page into a walk to step through: buttons, slider, keyboard.

const PAUSE = 1800; // ms a frame while it plays: a sentence or two to read

class LiveWalk {
  constructor(figure, data) {
    this.data = data;
    this.walk = data.walks[0];
    this.at = 0;
    this.timer = null;
    // A page saved by a browser brings the live half of its last visit along.
    figure.querySelectorAll(":scope>.attnlab-walk").forEach((old) => old.remove());
    const root = (this.root = document.createElement("div"));
    root.className = "attnlab-walk";
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", data.title + ". " + HELP);
    root.dataset.lmSuppressShortcuts = "true"; // JupyterLab: the keys are ours while focused
    make("style", root, { textContent: STYLE });
    make("strong", root, { textContent: data.title });
    this.controls();
    this.story = make("div", root, { className: "attnlab-walk-story" });
    this.story.setAttribute("aria-live", "polite");
    this.headline = make("strong", this.story, {});
    this.text = make("span", this.story, {});
    const stage = make("div", root, { className: "attnlab-walk-stage" });
    this.scene = new Scene(stage, data);
    const beside = make("div", stage, { className: "attnlab-walk-beside" });
    this.numbers = new Numbers(beside, data);
    this.zoom = new Zoom(beside, this.scene);
    this.bars = new Bars(root, data);
    make("small", root, { textContent: HELP });
    root.addEventListener("keydown", (event) => this.key(event));
    figure.insertBefore(root, figure.firstChild);
    figure.classList.add("attnlab-walk-live");
    this.go(0);
  }

  controls() {
    const bar = make("div", this.root, { className: "attnlab-walk-bar" });
    const button = (text, label, act) => {
      const made = make("button", bar, { type: "button", textContent: text, title: label });
      made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
      return made;
    };
    this.modes = [];
    if (this.data.walks.length > 1) {
      this.modes = this.data.walks.map((walk) => button(walk.name, "attention over: " + walk.name, () => this.choose(walk)));
    }
    button("\u21e4", "first step", () => this.stopAt(0));
    button("\u2190", "one step back", () => this.stopAt(this.at - 1));
    this.player = button("play", "play", () => this.toggle());
    button("\u2192", "one step forward", () => this.stopAt(this.at + 1));
    button("\u21e5", "last step", () => this.stopAt(this.last()));
    this.slider = make("input", bar, { type: "range", min: 0, step: 1 });
    this.slider.setAttribute("aria-label", "step");
    this.slider.addEventListener("input", () => this.stopAt(Number(this.slider.value)));
    this.count = make("small", bar, {});
  }

  last() {
    return this.walk.frames.length - 1;
  }

  // The same moment in the other walk: the same tile and phase, or the tile's skip.
  choose(walk) {
    const { p, t } = this.walk.frames[this.at];
    this.walk = walk;
    const same = walk.frames.findIndex((frame) => frame.p === p && frame.t === t);
    const tile = walk.frames.findIndex((frame) => frame.t === t);
    this.stopAt(same >= 0 ? same : Math.max(0, tile));
  }

  stopAt(at) {
    this.stop();
    this.go(at);
  }

  go(at) {
    this.at = Math.min(this.last(), Math.max(0, at));
    const frame = this.walk.frames[this.at];
    const before = this.at ? this.walk.frames[this.at - 1] : null;
    this.headline.textContent = frame.h;
    this.text.textContent = frame.x;
    this.slider.max = this.last();
    this.slider.value = this.at;
    this.slider.setAttribute("aria-valuetext", frame.h);
    this.count.textContent = "step " + (this.at + 1) + " of " + (this.last() + 1);
    this.modes.forEach((made, place) => made.setAttribute("aria-pressed", String(this.data.walks[place] === this.walk)));
    this.scene.show(this.walk, frame);
    this.numbers.show(frame, before);
    this.zoom.show(this.walk, frame);
    this.bars.show(this.walk, frame);
    this.root.dataset.step = this.walk.name + " " + this.at;
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.at === this.last()) this.go(0);
    this.story.setAttribute("aria-live", "off"); // who listens would hear every step cut the last
    this.player.textContent = "stop";
    this.player.setAttribute("aria-label", "stop");
    this.timer = setInterval(() => {
      if (!this.root.isConnected) return this.stop();
      this.go(this.at + 1);
      if (this.at === this.last()) this.stop();
    }, PAUSE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.story.setAttribute("aria-live", "polite");
    this.player.textContent = "play";
    this.player.setAttribute("aria-label", "play");
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.tagName === "BUTTON") return; // the button's own
    const acts = {
      ArrowLeft: () => this.stopAt(this.at - 1),
      ArrowRight: () => this.stopAt(this.at + 1),
      ArrowDown: () => this.stopAt(this.at - 1),
      ArrowUp: () => this.stopAt(this.at + 1),
      Home: () => this.stopAt(0),
      End: () => this.stopAt(this.last()),
      " ": () => this.toggle(),
    };
    // Up and down scroll the page, except on the slider, which has always listened to them.
    const upOrDown = event.key === "ArrowUp" || event.key === "ArrowDown";
    if (!acts[event.key] || (upOrDown && event.target !== this.slider)) return;
    acts[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }
}

function start() {
  for (const figure of document.querySelectorAll("figure.attnlab-tile-walk")) {
    const block = figure.querySelector('script[type="application/json"]');
    if (figure.attnlabLive || !block) continue;
    figure.attnlabLive = true;
    try {
      new LiveWalk(figure, JSON.parse(block.textContent));
    } catch (error) {
      // The still strip stays, complete; the reason is in the console.
      figure.classList.remove("attnlab-walk-live");
      figure.querySelectorAll(":scope>.attnlab-walk").forEach((half) => half.remove());
      console.warn("attnlab tile walk stays a picture:", error);
    }
  }
}

start();
document.addEventListener("DOMContentLoaded", start);
