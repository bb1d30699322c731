// Texts beside a lane, tied to their bars by lines; no text or line crosses a text.

const PAD = 4;

function apart(one, other) {
  if (one.row === other.row) {
    return one.right + 2 * PAD < other.left || one.left > other.right + 2 * PAD;
  }
  const near = one.row < other.row ? one : other;
  const far = near === one ? other : one;
  return !(near.left - PAD / 2 < far.x && far.x < near.right + PAD / 2);
}

// wishes: [{x, text, width}]. Tried: stairs that fall to the left (split 0), to the right (1), and
// two that fall away from each other. The one that seats most wins.
function placeLeaders(wishes, rows, low, high) {
  const sorted = wishes.slice().sort((a, b) => a.x - b.x);
  let best = [];
  for (const split of [0, 1, 0.5, 0.25, 0.75]) {
    const cut = Math.round(split * sorted.length);
    const placed = [];
    const seat = (wish, leftFirst) => {
      const spot = findSpot(wish, leftFirst, placed, rows, low, high);
      if (spot) placed.push(spot);
    };
    sorted.slice(0, cut).forEach((wish) => seat(wish, true));
    sorted.slice(cut).reverse().forEach((wish) => seat(wish, false));
    if (placed.length > best.length) best = placed;
  }
  return best;
}

function findSpot(wish, leftFirst, placed, rows, low, high) {
  const right = wish.x + PAD;
  const left = wish.x - PAD - wish.width;
  for (const start of leftFirst ? [left, right] : [right, left]) {
    for (let row = 0; row < rows; row++) {
      const spot = { ...wish, row, left: start, right: start + wish.width };
      if (spot.left >= low && spot.right <= high && placed.every((o) => apart(spot, o))) return spot;
    }
  }
  return null;
}
