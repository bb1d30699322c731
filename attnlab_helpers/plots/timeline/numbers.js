// Times as text and round ticks; the same rules as the still picture's.

function formatNs(ns) {
  const units = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]];
  const size = Math.abs(ns);
  for (let i = 0; i < units.length; i++) {
    const [factor, unit] = units[i];
    const value = size / factor;
    const digits = factor < 1e6 ? 3 : 4;
    let decimals = factor === 1 || value === 0 ? 0 : digits - 1 - Math.floor(Math.log10(value));
    decimals = Math.max(0, Math.min(digits - 1, decimals));
    const text = value.toFixed(decimals);
    if (Number(text) < 1000 || i === units.length - 1) {
      return (ns < 0 ? "-" : "") + (Number(text) % 1 === 0 ? String(Number(text)) : text) + " " + unit;
    }
  }
}

function axisTicks(t0, t1, wanted) {
  const span = Math.max(1, t1 - t0);
  const raw = span / wanted;
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = Math.max(1, power * [1, 2, 5, 10].find((factor) => power * factor >= raw));
  const [factor, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(
    (pair) => span >= 2 * pair[0] || pair[0] === 1
  );
  const decimals = Math.max(0, -Math.floor(Math.log10(step / factor) + 1e-9));
  const ticks = [];
  for (let i = Math.ceil(t0 / step - 1e-9); i * step <= t1 + step * 1e-9; i++) {
    ticks.push([i * step, ((i * step) / factor).toFixed(decimals)]);
  }
  return { ticks, unit };
}
