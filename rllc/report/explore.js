"use strict";
// Reads the JSON that stands in the page and draws it; no text of the data is ever read as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const H = 340, M = { left: 58, right: 58, top: 26, bottom: 40 };
const HEAD = /^(L\d+)H\d+$/;
let W = 560; // of a panel; less on a narrow screen, so that its text stays as large
const state = { run: 0, metric: data.metric, datasets: new Set(), heads: new Set(), hidden: new Set(), here: null, pinned: null };

function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}
const floats = text => new Float32Array(bytes(text).buffer);

function element(name, fields = {}, ...inside) {
  const svg = ["svg", "path", "line", "text", "rect", "circle", "g", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(fields)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}

const run = () => data.runs[state.run];

function table() { // arrays of the chosen metric, decoded once
  const found = run().metrics[state.metric];
  if (!found.values) Object.assign(found, { values: floats(found.value), halves: floats(found.half) });
  return found;
}
const place = (of, p, d, t) => (p * of.datasets.length + d) * of.steps.length + t;

function scaled(of) { // the curves as they are clustered, over all parts of a scope
  if (!at("asscaled").checked) return of.values;
  if (of.scaledAs === at("scaling").value) return of.scaled;
  const how = at("scaling").value, T = of.steps.length, D = of.datasets.length, out = Float32Array.from(of.values);
  const over = (indices, act) => {
    const known = indices.map(i => of.values[i]).filter(Number.isFinite);
    const mean = known.reduce((a, b) => a + b, 0) / known.length;
    const sd = Math.sqrt(known.reduce((a, b) => a + (b - mean) ** 2, 0) / known.length);
    act(mean, sd || 1, Math.min(...known), Math.max(...known));
  };
  const every = [...of.values.keys()];
  const scope = i => run().scopes[of.parts[Math.floor(i / (D * T))]];
  if (how === "global") for (const name of new Set(every.map(scope))) for (let d = 0; d < D; d++) {
    const inside = every.filter(i => Math.floor(i / T) % D === d && scope(i) === name);
    over(inside, (mean, sd) => inside.forEach(i => { out[i] = of.values[i] / sd; }));
  }
  if (how === "standardize" || how === "minmax") for (let p = 0; p < of.parts.length; p++) {
    const inside = every.slice(p * D * T, (p + 1) * D * T);
    over(inside, (mean, sd, low, high) => inside.forEach(i => {
      const floor = state.metric === data.metric && run().floors[of.parts[p]] || 0;
      out[i] = how === "minmax" ? (of.values[i] - low) / ((high - low) || 1) : (of.values[i] - mean) / Math.max(sd, floor);
    }));
  }
  Object.assign(of, { scaled: out, scaledAs: how });
  return out;
}

function group(part) { // label of a part in the chosen clustering; undefined where there is none
  const scope = run().scopes[part];
  if (scope === undefined) return undefined;
  const k = at("k").value === "main" ? run().chosen[scope] : at("k").value;
  const labels = run().labels[`${at("method").value}|${at("scaling").value}|${k}`];
  return labels ? labels[part] : undefined;
}

function look(part) {
  const by = at("colour").value, P = data.looks.length;
  if (by === "type") {
    const n = data.types.indexOf(run().types[part]);
    return n < 0 ? data.plain : data.looks[n];
  }
  if (by === "group") {
    const n = group(part);
    const scopes = Object.keys(run().chosen); // the same number in another scope: the same colour, another dash
    return n === undefined ? data.plain : data.looks[(n % data.colours + data.colours * scopes.indexOf(run().scopes[part])) % P];
  }
  return data.looks[table().parts.indexOf(part) % P];
}

function kind(part) {
  const by = at("colour").value;
  if (by === "type") return run().types[part] || "unknown";
  const n = by === "group" ? group(part) : undefined;
  return by === "head" ? "head" : n === undefined ? "not clustered" : `${run().scopes[part]} group ${n}`;
}

function axis(steps) {
  const later = steps.filter(step => step > 0), first = later.length ? later[0] : 1;
  const zero = steps[0] === 0, last = Math.max(steps[steps.length - 1], first * 1.0001);
  const raw = step => step <= 0 ? 0 : zero ? Math.min(step / first, 1) * 0.45 + Math.log10(Math.max(step / first, 1)) : Math.log10(step / first);
  const end = raw(last) || 1;
  return step => M.left + (W - M.left - M.right) * raw(step) / end;
}

function ticks(steps) {
  const later = steps.filter(step => step > 0), out = steps[0] === 0 ? [0] : [];
  if (!later.length) return out;
  const first = later[0], last = later[later.length - 1], digits = last / first < 150 ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(first)); power <= Math.log10(last); power++)
    for (const digit of digits) {
      const step = digit * 10 ** power;
      if (step >= first && step <= last * 1.001) out.push(step);
    }
  return out;
}
const short = step => step < 1e4 ? String(step) : `${step / 1000}k`;

function nice(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough)), lead = rough / power;
  const step = power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10), out = [];
  for (let y = Math.ceil(low / step) * step; y <= high; y += step) out.push(Math.abs(y) < step / 1e6 ? 0 : y);
  return out;
}

const shown = () => table().parts.filter(part => state.heads.has(part) && !state.hidden.has(kind(part)));

function limits(of, values, parts) {
  let low = Infinity, high = -Infinity;
  for (const part of parts) for (const d of of.datasets.keys()) if (state.datasets.has(of.datasets[d]))
    for (let t = 0; t < of.steps.length; t++) {
      const value = values[place(of, of.parts.indexOf(part), d, t)];
      if (value < low) low = value;
      if (value > high) high = value;
    }
  if (!(low < high)) return Number.isFinite(low) ? [low - 1, low + 1] : [0, 1];
  const pad = 0.06 * (high - low);
  return [low - pad, high + pad];
}

let panels = []; // what was drawn last: dataset, svg, places of all points, and lines by part

function draw() {
  const room = at("panels").clientWidth || 560; // panels stand side by side where each gets 416 pixels
  const beside = Math.min(Math.max(Math.floor((room + 12) / 428), 1), Math.max(state.datasets.size, 1));
  W = Math.max(320, Math.min(720, (room - 12 * (beside - 1)) / beside));
  const of = table(), values = scaled(of), parts = shown();
  const [low, high] = limits(of, values, parts), x = axis(of.steps);
  const y = value => M.top + (H - M.top - M.bottom) * (high - value) / (high - low);
  const held = panels.findIndex(panel => panel.svg === document.activeElement); // the new picture keeps the focus
  panels = [];
  const figures = [];
  of.datasets.forEach((dataset, d) => {
    if (!state.datasets.has(dataset)) return;
    const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img", "aria-describedby": "keys-help",
      "aria-label": `${state.metric} of ${parts.length} parts on ${dataset} against the training step` });
    frame(svg, of.steps, x, y, low, high, dataset);
    const panel = { dataset, d, svg, x, y, values, of, parts, lines: new Map(), over: element("g") };
    const named = [];
    for (const part of parts) {
      const p = of.parts.indexOf(part), mine = look(part);
      let path = "", pen = false, last = null;
      for (let t = 0; t < of.steps.length; t++) {
        const value = values[place(of, p, d, t)];
        if (!Number.isFinite(value)) { pen = false; continue; }
        const px = x(of.steps[t]).toFixed(1), py = y(value).toFixed(1);
        path += (pen ? "L" : "M") + px + " " + py + (pen ? "" : "h.01");
        pen = true;
        last = Number(py);
      }
      const line = element("path", { d: path, class: "line", stroke: mine.colour, "stroke-dasharray": mine.dash });
      panel.lines.set(part, line);
      svg.append(line);
      if (last !== null) named.push([part, last, mine.colour]);
    }
    if (named.length <= 24) ends(svg, named);
    marks(svg, panel);
    svg.append(panel.over);
    listen(panel);
    panels.push(panel);
    figures.push(element("figure", {}, svg));
  });
  at("panels").replaceChildren(...figures);
  if (held >= 0) panels[held]?.svg.focus({ preventScroll: true });
  keys(of);
  mark();
}

function frame(svg, steps, x, y, low, high, title) {
  for (const [from, to] of run().stages) svg.append(element("rect", { class: "stage", x: x(from), y: M.top,
    width: Math.max(x(to) - x(from), 0), height: H - M.top - M.bottom }));
  let free = -Infinity;
  for (const step of ticks(steps)) {
    svg.append(element("line", { class: "axis", x1: x(step), x2: x(step), y1: M.top, y2: H - M.bottom }));
    if (x(step) - free < 34) continue;
    free = x(step);
    svg.append(element("text", { x: x(step), y: H - M.bottom + 16, "text-anchor": "middle" }, short(step)));
  }
  for (const value of nice(low, high)) {
    svg.append(element("line", { class: "axis", x1: M.left, x2: W - M.right, y1: y(value), y2: y(value) }));
    svg.append(element("text", { x: M.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  const unit = at("asscaled").checked ? `${state.metric}, scaled: ${at("scaling").value}` : state.metric === data.metric ? data.symbol : state.metric;
  svg.append(element("text", { x: M.left, y: 16, "font-weight": 600 }, `${title} · ${unit}`));
  svg.append(element("text", { x: (W + M.left - M.right) / 2, y: H - 6, "text-anchor": "middle" },
    `training step (log scale${steps[0] === 0 && steps[1] > 1 ? `; linear below ${short(steps[1])}` : ""})`));
}

function marks(svg, panel) { // a cross on each estimate whose health is not ok; at the foot where it has no number
  const { of, x, y, d } = panel;
  for (const [i, health] of Object.entries(of.health)) {
    const T = of.steps.length, p = Math.floor(i / T / of.datasets.length), value = panel.values[i];
    if (Math.floor(i / T) % of.datasets.length !== d || !panel.parts.includes(of.parts[p])) continue;
    const px = x(of.steps[i % T]), py = Number.isFinite(value) ? y(value) : H - M.bottom - 5;
    svg.append(element("path", { class: "health", d: `M${px - 4} ${py - 4}l8 8m0 -8l-8 8` },
      element("title", {}, `${of.parts[p]}, step ${of.steps[i % T]}: ${health}`)));
  }
}

function ends(svg, named) { // names at the ends of lines, pushed apart
  named.sort((a, b) => a[1] - b[1]);
  const gap = Math.min(12, (H - M.top - M.bottom) / Math.max(named.length, 1)), places = [];
  let free = M.top;
  for (const [, wanted] of named) {
    places.push(Math.max(wanted, free));
    free = places[places.length - 1] + gap;
  }
  let roof = H - M.bottom;
  for (let n = places.length - 1; n >= 0; n--) roof = (places[n] = Math.min(places[n], roof)) - gap;
  for (const [n, [part, , colour]] of named.entries()) {
    const py = places[n];
    svg.append(element("text", { x: W - M.right + 4, y: py + 4, style: `fill:${colour};font-size:${Math.min(11, gap)}px` }, part.slice(0, 9)));
  }
}

function keys(of) { // the legend; its buttons hide and show
  const kinds = new Map();
  for (const part of of.parts) if (state.heads.has(part)) {
    const name = kind(part);
    if (!kinds.has(name)) kinds.set(name, { look: look(part), count: 0 });
    kinds.get(name).count++;
  }
  const buttons = [...kinds].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true })).map(([name, { look: mine, count }]) => {
    const sample = element("svg", { viewBox: "0 0 34 8", width: 34, height: 8, "aria-hidden": "true", style: "width:34px;border:0" },
      element("line", { x1: 1, x2: 33, y1: 4, y2: 4, stroke: mine.colour, "stroke-width": 2.5, "stroke-dasharray": mine.dash }));
    const button = element("button", { type: "button", "aria-pressed": String(!state.hidden.has(name)) }, sample, `${name} (${count})`);
    button.addEventListener("click", () => {
      if (!state.hidden.delete(name)) state.hidden.add(name);
      draw();
      [...at("keys").children].find(one => one.textContent === button.textContent)?.focus();
    });
    return button;
  });
  at("keys").replaceChildren(...(at("colour").value === "head" ? [] : buttons));
  for (const label of at("heads").querySelectorAll("label")) label.style.setProperty("--look", look(label.dataset.part).colour);
}

function nearest(panel, px, py) {
  let best = null, least = Infinity;
  panel.parts.forEach(part => {
    const p = panel.of.parts.indexOf(part);
    for (let t = 0; t < panel.of.steps.length; t++) {
      const value = panel.values[place(panel.of, p, panel.d, t)];
      if (!Number.isFinite(value)) continue;
      const far = (panel.x(panel.of.steps[t]) - px) ** 2 + (panel.y(value) - py) ** 2;
      if (far < least) { least = far; best = { part, dataset: panel.dataset, t }; }
    }
  });
  return least < 60 ** 2 ? best : null;
}

function listen(panel) {
  const point = event => {
    const box = panel.svg.getBoundingClientRect();
    return nearest(panel, (event.clientX - box.left) * W / box.width, (event.clientY - box.top) * H / box.height);
  };
  panel.svg.addEventListener("pointermove", event => go(point(event)));
  panel.svg.addEventListener("pointerleave", () => go(state.pinned));
  panel.svg.addEventListener("click", event => pin(point(event)));
  panel.svg.addEventListener("keydown", event => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(state.here); }
    if (event.key === "Escape") pin(null);
    if (!moves || !panel.parts.length) return;
    event.preventDefault();
    const start = state.here && state.here.dataset === panel.dataset && panel.parts.includes(state.here.part) ? state.here : null;
    const [n, t] = start ? [panel.parts.indexOf(start.part) + moves[0], start.t + moves[1]] : [0, 0];
    const clamp = (value, size) => Math.min(Math.max(value, 0), size - 1);
    go({ part: panel.parts[clamp(n, panel.parts.length)], dataset: panel.dataset, t: clamp(t, panel.of.steps.length) });
  });
}

function go(here) {
  state.here = here;
  mark();
}

function describe(here) {
  const of = table(), i = place(of, of.parts.indexOf(here.part), of.datasets.indexOf(here.dataset), here.t);
  const half = of.halves[i], value = of.values[i], words = [here.part, here.dataset, `step ${of.steps[here.t]}`];
  const band = Number.isFinite(half) ? ` ± ${number(half)} (95 %)` : "";
  words.push(`${state.metric} ${number(value)}${band}`);
  if (of.health[i]) words.push(of.health[i]);
  const n = group(here.part), type = run().types[here.part];
  if (n !== undefined) words.push(`group ${n} by ${at("method").value}`);
  if (type) words.push(type);
  const support = run().support[here.part];
  if (support !== undefined) words.push(`with its consensus group in ${Math.round(100 * support)} % of clusterings`);
  return words.join(" · ");
}

function mark() { // highlight the head under the pointer on every panel, with its band
  const here = state.here || state.pinned;
  at("said").textContent = here ? describe(here) : "Point at a line, or move to a panel with Tab and use the arrow keys; Enter or a click keeps a point.";
  for (const panel of panels) {
    panel.over.replaceChildren();
    for (const [part, line] of panel.lines) line.setAttribute("class", !here ? "line" : part === here.part ? "line strong" : "line dim");
    if (!here || !panel.parts.includes(here.part)) continue;
    const { of, x, y, d } = panel, p = of.parts.indexOf(here.part), mine = look(here.part);
    if (!at("asscaled").checked) {
      let up = "", down = "";
      for (let t = 0; t < of.steps.length; t++) {
        const i = place(of, p, d, t);
        if (!Number.isFinite(of.values[i]) || !Number.isFinite(of.halves[i])) continue;
        up += `${up ? "L" : "M"}${x(of.steps[t])} ${y(of.values[i] + of.halves[i])}`;
        down = `L${x(of.steps[t])} ${y(of.values[i] - of.halves[i])}` + down;
      }
      if (up) panel.over.append(element("path", { d: up + down + "Z", fill: mine.colour, opacity: 0.2 }));
    }
    const value = panel.values[place(of, p, d, here.t)];
    if (Number.isFinite(value)) panel.over.append(element("circle", { cx: x(of.steps[here.t]), cy: y(value),
      r: panel.dataset === here.dataset ? 5 : 3, fill: mine.colour, stroke: "#000" }));
  }
}

function pin(here) {
  state.pinned = here;
  go(here);
  at("detail").hidden = !here;
  if (!here) return;
  const of = table(), p = of.parts.indexOf(here.part), d = of.datasets.indexOf(here.dataset), i = place(of, p, d, here.t);
  at("who").textContent = `${here.part} on ${here.dataset} at step ${of.steps[here.t]}`;
  const facts = [[state.metric, `${number(of.values[i])} ± ${number(of.halves[i])} (95 %)`]];
  const health = of.health[i];
  if (health) facts.push(["health", health]);
  for (const [name, other] of Object.entries(run().metrics)) {
    if (name === state.metric) continue;
    if (!other.values) Object.assign(other, { values: floats(other.value), halves: floats(other.half) });
    const q = other.parts.indexOf(here.part), t = other.steps.indexOf(of.steps[here.t]);
    if (q < 0 || t < 0) continue;
    facts.push([name, other.datasets.map((dataset, e) => `${number(other.values[place(other, q, e, t)])} (${dataset})`).join(", ")]);
  }
  at("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
  const texts = (run().texts[here.part] || []).map(text => element("li", {}, text));
  at("texts").replaceChildren(...texts);
  at("textsof").hidden = !texts.length;
  at("trace").replaceChildren(...(state.metric === data.metric ? trace(i) : []));
}

function trace(i) { // mean of the chains, and their range
  const of = run().traces;
  if (!of) return [];
  if (!of.bytes) Object.assign(of, { bytes: bytes(of.levels), scale: floats(of.range) });
  const low = of.scale[2 * i], high = of.scale[2 * i + 1], S = of.points;
  if (!Number.isFinite(low)) return [element("p", {}, "No loss trace was kept of this point.")];
  const read = (row, s) => low + (high - low) * of.bytes[(3 * i + row) * S + s] / 255;
  const x = s => M.left + (W - M.left - 20) * s / Math.max(S - 1, 1), pad = 0.05 * (high - low || 1);
  const y = value => M.top + (H - M.top - M.bottom) * (high + pad - value) / (high - low + 2 * pad);
  const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Loss trace of the chains" });
  for (const value of nice(low - pad, high + pad)) {
    svg.append(element("line", { class: "axis", x1: M.left, x2: W - 20, y1: y(value), y2: y(value) }));
    svg.append(element("text", { x: M.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  const row = n => [...Array(S).keys()].map(s => `${x(s).toFixed(1)} ${y(read(n, s)).toFixed(1)}`);
  svg.append(element("path", { d: `M${row(1).join("L")}L${row(2).reverse().join("L")}Z`, fill: "#0072B2", opacity: 0.22 }));
  svg.append(element("path", { d: `M${row(0).join("L")}`, class: "line", stroke: "#0072B2" }));
  svg.append(element("text", { x: M.left, y: 16, "font-weight": 600 }, "nβ × excess loss (nats)"));
  svg.append(element("text", { x: M.left, y: H - 14 }, "0"));
  svg.append(element("text", { x: W - 20, y: H - 14, "text-anchor": "end" }, `SGLD step ${of.last}`));
  return [element("figure", {}, svg, element("figcaption", {}, "Loss trace: mean of the chains, and their range."))];
}

function fill(id, options, chosen) {
  at(id).replaceChildren(...options.map(name => {
    const option = element("option", { value: name }, name);
    option.selected = name === chosen;
    return option;
  }));
}

function boxes(id, names, chosen, change) { // check boxes, one a name; heads stand by layer
  let layer = null;
  const made = [];
  for (const name of names) {
    const found = HEAD.exec(name);
    if (id === "heads" && found && found[1] !== layer) {
      layer = found[1];
      const mine = layer, button = element("button", { type: "button", title: `show or hide the heads of ${mine}` }, mine);
      button.addEventListener("click", () => {
        const inside = names.filter(part => part.startsWith(`${mine}H`)), on = inside.every(part => chosen.has(part));
        inside.forEach(part => on ? chosen.delete(part) : chosen.add(part));
        at(id).querySelectorAll("input").forEach(box => { box.checked = chosen.has(box.value); });
        change();
      });
      made.push(element("span", { class: "layer" }, button));
    }
    const box = element("input", { type: "checkbox", value: name });
    box.checked = chosen.has(name);
    box.addEventListener("change", () => { box.checked ? chosen.add(name) : chosen.delete(name); change(); });
    const label = element("label", {}, box, id === "heads" && found ? name.slice(layer.length) : name);
    label.dataset.part = name;
    made.push(label);
  }
  at(id).replaceChildren(...made);
}

function chooseMetric() {
  const of = table();
  state.datasets = new Set(of.datasets);
  const heads = of.parts.filter(part => HEAD.test(part)); // others, as the whole model, are on another scale
  state.heads = new Set(heads.length ? heads : of.parts);
  state.here = null;
  pin(null);
  boxes("datasets", of.datasets, state.datasets, draw);
  boxes("heads", of.parts, state.heads, draw);
  draw();
}

function chooseRun() {
  const names = Object.keys(run().metrics), ways = Object.keys(run().labels).map(way => way.split("|"));
  const kinds = place => [...new Set(ways.map(way => way[place]))];
  state.metric = names.includes(state.metric) ? state.metric : names[0];
  fill("metric", names, state.metric);
  fill("method", kinds(0), data.primary[0]);
  fill("scaling", kinds(1).length ? kinds(1) : ["none"], data.primary[1]);
  fill("k", ["main", ...kinds(2).sort((a, b) => a - b)], "main");
  const colours = ["head", ...(Object.keys(run().types).length ? ["type"] : []), ...(ways.length ? ["group"] : [])];
  fill("colour", colours, colours[colours.length - 1]);
  chooseMetric();
}

fill("run", data.runs.map(one => one.name), data.runs[0].name);
at("run").addEventListener("change", () => { state.run = at("run").selectedIndex; chooseRun(); });
at("metric").addEventListener("change", () => { state.metric = at("metric").value; chooseMetric(); });
for (const id of ["method", "scaling", "k", "colour", "asscaled"]) at(id).addEventListener("change", () => { state.hidden.clear(); draw(); });
for (const [id, all] of [["all", true], ["none", false]]) at(id).addEventListener("click", () => {
  state.heads.clear();
  if (all) table().parts.forEach(part => state.heads.add(part));
  at("heads").querySelectorAll("input").forEach(box => { box.checked = all; });
  draw();
});
let wide = innerWidth;
addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; draw(); if (state.pinned) pin(state.pinned); } });
chooseRun();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
