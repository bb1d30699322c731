// How the live walk is dressed: its style sheet, its help, and short ways to make elements.
// Selectors carry an element more than they need: JupyterLab sets the height of every svg and img.

const STYLE = `
.attnlab-walk{position:relative;background:#fff;color:#1b1f24;font:13px/1.4 "DejaVu Sans",system-ui,sans-serif;padding:8px 10px;border-radius:4px;max-width:1040px;text-align:left}
.attnlab-walk:focus{outline:2px solid #0072b2;outline-offset:1px}
.attnlab-walk button,.attnlab-walk input{font:inherit;color:inherit}
.attnlab-walk button{background:#f6f8fa;border:1px solid #8c959f;border-radius:4px;padding:2px 10px;cursor:pointer}
.attnlab-walk button[aria-pressed=true]{background:#0072b2;border-color:#0072b2;color:#fff}
.attnlab-walk button:focus-visible,.attnlab-walk input:focus-visible{outline:2px solid #0072b2;outline-offset:2px}
.attnlab-walk-bar{display:flex;flex-wrap:wrap;gap:4px 8px;align-items:center;margin:4px 0}
.attnlab-walk-bar input{flex:1 1 160px;min-width:120px;accent-color:#0072b2}
.attnlab-walk-stage{display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start}
.attnlab-walk-stage>svg{flex:1 1 420px;max-width:690px;min-width:0}
.attnlab-walk-beside{display:flex;flex:0 1 auto;flex-wrap:wrap;gap:10px 24px;align-items:flex-start;max-width:100%}
@media (min-width:1000px){.attnlab-walk-beside{flex-direction:column}}
.attnlab-walk-zoom{width:250px;min-height:160px}
.attnlab-walk .attnlab-walk-zoom img{display:block;width:112px;height:112px;margin:0 0 4px;image-rendering:pixelated;border:1px solid #c04a00}
.attnlab-walk svg text{font:12px "DejaVu Sans",system-ui,sans-serif;fill:#1b1f24}
.attnlab-walk table{border-collapse:collapse;margin:0;font:inherit;color:inherit;background:none;border:0}
.attnlab-walk tr,.attnlab-walk tbody tr:nth-child(even){background:none}
.attnlab-walk td,.attnlab-walk th{padding:1px 8px;text-align:right;border:0;border-bottom:1px solid #e4e7eb;color:inherit;font-variant-numeric:tabular-nums;font-weight:normal;min-width:62px;white-space:nowrap}
.attnlab-walk th:first-child{text-align:left;min-width:0;padding-left:0}
.attnlab-walk .followed{font-weight:bold}
.attnlab-walk .new{background:#f8c3a0}
.attnlab-walk-story{min-height:5.8em;margin:6px 0 2px}
.attnlab-walk-story strong{display:block;font-size:15px}
.attnlab-walk svg.attnlab-walk-bars{display:block;width:100%;height:84px;background:#f6f8fa}
.attnlab-walk-bars .bar{transform-box:fill-box;transform-origin:bottom;transition:transform .35s}
.attnlab-walk-tiles{display:flex;font-size:11px;color:#57606a;text-align:center}
.attnlab-walk-tiles span{overflow:hidden;white-space:nowrap;flex-basis:0}
.attnlab-walk-tiles .now{color:#c04a00;font-weight:bold}
.attnlab-walk small{color:#57606a;font-size:12px}
@media (prefers-reduced-motion:reduce){.attnlab-walk-bars .bar{transition:none}}
@media screen{.attnlab-walk-live>img{display:none}}
@media print{.attnlab-walk{display:none!important}}`;

const HELP = "Click the picture or Tab to it, then: arrow keys step, Home and End jump, Space plays and stops.";

function make(tag, parent, properties) {
  const element = Object.assign(document.createElement(tag), properties);
  parent.appendChild(element);
  return element;
}

function draw(tag, parent, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}
