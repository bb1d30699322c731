// How the two panes are dressed: the style sheet, the help, and a short way to make elements.

const STYLE = `
.attnlab-stages-live{background:#fff;color:#1b1f24;border:1px solid #d0d7de;border-radius:4px;font:13px "DejaVu Sans",system-ui,sans-serif}
.attnlab-stages-live .bar{display:flex;flex-wrap:wrap;gap:6px 18px;align-items:center;padding:7px 10px}
.attnlab-stages-live .group{display:flex;flex-wrap:wrap;gap:0;align-items:center}
.attnlab-stages-live .group>span{color:#57606a;margin-right:7px}
.attnlab-stages-live button{font:inherit;color:#1b1f24;background:#f6f8fa;border:1px solid #8c959f;margin:0 0 0 -1px;padding:3px 10px;cursor:pointer}
.attnlab-stages-live button[aria-pressed=true]{background:#0072b2;border-color:#0072b2;color:#fff;font-weight:bold}
.attnlab-stages-live button:disabled{color:#8c959f;cursor:default}
.attnlab-stages-live button:focus-visible,.attnlab-stages-live pre:focus-visible{outline:3px solid #0072b2;outline-offset:1px;z-index:1}
.attnlab-stages-live .panes{display:grid;grid-template-columns:fit-content(55%) minmax(0,1fr);gap:0;border-top:1px solid #d0d7de;border-bottom:1px solid #d0d7de}
.attnlab-stages-live .panes>div{min-width:0}
.attnlab-stages-live .panes>div+div{border-left:1px solid #d0d7de}
.attnlab-stages-live .head{padding:4px 10px;background:#f6f8fa;border-bottom:1px solid #d0d7de;color:#57606a;font-size:12px}
.attnlab-stages-live .head b{color:#1b1f24}
.attnlab-stages-live pre.pane{position:relative;height:var(--high,374px);margin:0;padding:4px 0;overflow:auto;background:#fff;color:#1b1f24;border:0;font:12px/17px "DejaVu Sans Mono",ui-monospace,Menlo,Consolas,monospace;white-space:pre;cursor:pointer}
.attnlab-stages-live .row{display:block;width:max-content;min-width:100%;box-sizing:border-box;border-left:4px solid transparent;padding-right:12px}
.attnlab-stages-live .row span{font:inherit}
.attnlab-stages-live .no,.attnlab-stages-live .made{display:inline-block;text-align:right;color:#4a525b;user-select:none;-webkit-user-select:none}
.attnlab-stages-live .no{width:4.6ch;margin-right:1ch}
.attnlab-stages-live .made{width:5.6ch;padding-right:.4ch;font-size:11px}
.attnlab-stages-live .none{color:#57606a}
.attnlab-stages-live .h0 .no{background:#d9effb}.attnlab-stages-live .h1 .no{background:#fbd78f}
.attnlab-stages-live .h2 .no{background:#a5e0cc}.attnlab-stages-live .h3 .no{background:#f0cfe1}
.attnlab-stages-live .h4 .no{background:#d8cff0}.attnlab-stages-live .h5 .no{background:#f6f0a0}
.attnlab-stages-live .row.on{background:#fff1c2;border-left-color:#b36f00}
.attnlab-stages-live .row.on .no{background:#9a5f00;color:#fff;font-weight:bold}
.attnlab-stages-live .row.at{outline:1px dashed #1b1f24;outline-offset:-1px}
.attnlab-stages-live b{color:#005a8c;font-weight:bold}.attnlab-stages-live i{color:#57606a;font-style:italic}
.attnlab-stages-live .s{color:#007a58}.attnlab-stages-live .n{color:#8a4a00}
.attnlab-stages-live .say{padding:6px 10px;min-height:2.7em}
.attnlab-stages-live .say small{display:block;color:#57606a;font-size:11.5px}
.attnlab-stages-live [hidden]{display:none}
@media (max-width:640px){.attnlab-stages-live .panes{grid-template-columns:minmax(0,1fr)}.attnlab-stages-live .panes>div+div{border-left:0;border-top:1px solid #d0d7de}.attnlab-stages-live pre.pane{height:260px}}
@media screen{.attnlab-stages-are-live>.attnlab-still{display:none}}
@media print{.attnlab-stages-live{display:none!important}}`;

const HELP =
  "Point at a line on either side to see what it became; click keeps it. Keys: \u2191 \u2193 move, " +
  "\u2190 \u2192 change sides, Enter shows the next of its lines, Escape lets go.";

const HUES = 6;

const [ROW_HEIGHT, LEAST_ROWS, MOST_ROWS] = [17, 14, 26]; // of a pane; the height is in pixels

function make(tag, parent, properties) {
  const element = Object.assign(document.createElement(tag), properties);
  if (parent) parent.appendChild(element);
  return element;
}
