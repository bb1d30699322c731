// One side: the lines of a text, each with the source line that it belongs to.

class Pane {
  constructor(parent, name) {
    const box = make("div", parent, {});
    this.head = make("div", box, { className: "head" });
    this.pre = make("pre", box, { className: "pane", tabIndex: 0 });
    this.pre.setAttribute("role", "listbox");
    this.pre.setAttribute("aria-multiselectable", "true");
    this.id = "attnlab-" + name + "-" + Math.random().toString(36).slice(2);
    this.rows = [];
    this.at = -1;
  }

  // The still text has "number| text" in each line; its HTML holds no tag across lines.
  fill(still, hues, made) {
    this.pre.textContent = "";
    this.rows = still.innerHTML.split("\n").map((line, i) => {
      const bar = line.indexOf("|");
      const number = +line.slice(0, bar) || null;
      const row = make("span", this.pre, { className: "row", id: this.id + i });
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", "false");
      if (!line.slice(bar + 2).trim()) row.setAttribute("aria-label", "blank line");
      make("span", row, { className: "no", textContent: number ? number + " " : "" });
      const times = made && made.has(number) ? "\u00d7" + made.get(number) + " " : "";
      if (made) make("span", row, { className: "made", textContent: times });
      make("span", row, { innerHTML: line.slice(bar + 2) || " " });
      if (hues.has(number)) row.classList.add("h" + hues.get(number));
      else if (!made) row.classList.add("none");
      return { row, number };
    });
    this.pre.scrollTop = this.pre.scrollLeft = 0;
    this.at = -1;
    this.pre.removeAttribute("aria-activedescendant");
  }

  find(event) {
    const row = event.target.closest && event.target.closest(".row");
    return row ? this.rows.findIndex((one) => one.row === row) : -1;
  }

  mark(number) {
    for (const one of this.rows) {
      const on = number !== null && one.number === number;
      if (one.row.classList.toggle("on", on) !== (one.row.getAttribute("aria-selected") === "true"))
        one.row.setAttribute("aria-selected", String(on));
    }
  }

  places(number) {
    const found = [];
    this.rows.forEach((one, i) => {
      if (number !== null && one.number === number) found.push(i);
    });
    return found;
  }

  go(i) {
    if (this.rows[this.at]) this.rows[this.at].row.classList.remove("at");
    this.at = i;
    if (!this.rows[i]) return this.pre.removeAttribute("aria-activedescendant");
    this.rows[i].row.classList.add("at");
    this.pre.setAttribute("aria-activedescendant", this.rows[i].row.id);
    this.show(i);
  }

  inSight(i) {
    const { offsetTop, offsetHeight } = this.rows[i].row;
    return offsetTop >= this.pre.scrollTop && offsetTop + offsetHeight <= this.pre.scrollTop + this.pre.clientHeight;
  }

  // Scrolls this side only, never the page, and not at all when the line is in sight.
  show(i) {
    if (!this.inSight(i)) this.pre.scrollTop = this.rows[i].row.offsetTop - this.pre.clientHeight / 3;
  }
}
