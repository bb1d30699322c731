// How the live picture is dressed: its style sheet, its help, and a short way to make elements.

const STYLE = `
.attnlab-live{position:relative;background:#fff;color:#1b1f24;font:12px ${FONT}}
.attnlab-live canvas{display:block;width:100%;cursor:grab;touch-action:pan-y}
.attnlab-live canvas:focus{outline:2px solid #0072b2;outline-offset:1px}
.attnlab-bar{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:center;padding:4px 6px}
.attnlab-bar button{font:inherit;color:inherit;background:#f6f8fa;border:1px solid #8c959f;border-radius:4px;padding:2px 8px;cursor:pointer}
.attnlab-bar i{display:inline-block;width:22px;height:11px;margin-right:4px;vertical-align:-1px}
.attnlab-help{color:#57606a}
.attnlab-tip{position:absolute;z-index:5;max-width:520px;max-height:60%;overflow:hidden;padding:6px 8px;pointer-events:none;background:#1b1f24;color:#fff;border-radius:4px;white-space:pre-wrap;overflow-wrap:anywhere}
.attnlab-detail{margin:4px 6px;padding:6px 8px;border-left:4px solid #0072b2;background:#f6f8fa;white-space:pre-wrap;overflow-wrap:anywhere}
.attnlab-live [hidden]{display:none}
@media screen{.attnlab-is-live>img,.attnlab-is-live>figcaption{display:none}}
@media print{.attnlab-live{display:none!important}}`;

const HELP =
  "Click the picture, then: wheel or + and \u2212 zoom, drag or arrows move, 0 shows all, " +
  "Tab walks the GPU activities, Enter shows one in full, Escape lets go.";

function make(tag, parent, properties) {
  const element = Object.assign(document.createElement(tag), properties);
  parent.appendChild(element);
  return element;
}
