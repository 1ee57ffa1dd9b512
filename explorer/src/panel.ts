// The panel beside the canvas: what is known of the selected node, or of the whole circuit or Program.

import { clipped, h } from "./dom";
import { variableName, type Graph } from "./model";
import type { Entry, Explored, Role, Row, Tensor } from "./record";

export interface Actions {
  select: (node: number) => void;
  enter: (stage: number) => void;
  group: (group: number) => void;
}

const MOST = 24; // of links and names that are listed at once
const LETTERS = 80; // of a name that are shown

const ROLES: Record<Role, string> = { input: "input", sum: "sum", product: "product", fused: "products and sums in one layer", equation: "equation" };

const STAGES: Record<string, string> = {
  described: "The layers as they were written.",
  optimized: "The layers after the compiler's rules rewrote them.",
  folded: "Groups of alike layers, each computed at once.",
};

/** A sentence on a stage of a circuit. */
export function meaningOf(stage: string): string {
  return STAGES[stage] ?? "";
}

export function nodePanel(graph: Graph, node: number, row: Row | null, actions: Actions): HTMLElement {
  const { record, stage } = graph;
  const panel = h("div", {}, h("h2", {}, h("span", { class: `badge ${graph.role(node)}` }), graph.name(node)));
  if (stage.equation) {
    equationPart(panel, graph, node, actions);
    return panel;
  }
  panel.append(
    facts([
      ["group", graph.isFolded ? String(node) : ""],
      ["role", isKnown(graph.kind(node), graph.role(node)) ? "" : ROLES[graph.role(node)]],
      ["units", String(stage.units![node])],
      ["settings", record.texts[stage.settings![node]]],
      ["reads", links(graph, [...new Set(stage.inputs[node])], actions)],
      ["read by", links(graph, graph.readers[node], actions)],
      ["output", stage.outputs.includes(node) ? "yes" : ""],
    ]),
    section("Scope", scopeOf(graph, node, row)),
  );
  if (row && !graph.isFolded && graph.number === 0) panel.append(section("This row", rowPart(record, row, node)));
  const parameters = stage.parameters?.[node] ?? [];
  if (parameters.length) panel.append(section("Parameters", ...parameters.map((parameter) => parameterPart(record, parameter))));
  const groups = graph.groups(node);
  if (record.groups) {
    if (graph.isFolded) panel.append(section("Members", membersPart(record, node, stage.sizes![node])));
    else panel.append(section("Folded", foldPart(record, graph, node, actions)));
    for (const group of groups) groupPart(panel, record, group);
  }
  return panel;
}

export function wholePanel(record: Explored, graph: Graph, actions: Actions): HTMLElement {
  const panel = h("div", {}, h("h2", {}, record.subject === "circuit" ? "The whole circuit" : "The whole Program"));
  const kinds = stageKinds(graph);
  panel.append(
    facts([
      ["stage", graph.stage.name],
      [record.subject === "circuit" ? (graph.isFolded ? "groups" : "layers") : "equations", graph.size.toLocaleString("en")],
      ...(record.variables ? [["variables", record.variables.count.toLocaleString("en")] as [string, string]] : []),
      ...(graph.stage.arguments ? [["arguments", limited(graph.stage.arguments.map((argument) => h("code", {}, argument)))] as [string, HTMLElement]] : []),
    ]),
    h("p", { class: "quiet" }, meaningOf(graph.stage.name)),
    h("ul", { class: "legend" }, ...kinds.map(legendLine)),
    helpPart(record, graph),
  );
  if (record.groups?.some((group) => group.seconds !== null)) panel.append(section("Where the time goes", timesPart(record, actions)));
  if (record.rows_note) panel.append(h("p", { class: "quiet" }, `No most probable states: ${record.rows_note}`));
  panel.append(section(record.groups ? "What the compiler says" : "As text", code([record.text])));
  return panel;
}

function isKnown(kind: string, role: Role): boolean {
  return role === "equation" || kind.toLowerCase() === role;
}

function legendLine([kind, role, count]: [string, Role, number]): HTMLElement {
  const meaning = isKnown(kind, role) ? "" : `, ${ROLES[role]}`;
  return h("li", {}, h("span", { class: `badge ${role}` }), `${count.toLocaleString("en")} ${kind}${meaning}`);
}

function helpPart(record: Explored, graph: Graph): HTMLElement {
  const isCircuit = record.subject === "circuit";
  const [one, all] = isCircuit ? (graph.isFolded ? ["group", "groups"] : ["layer", "layers"]) : ["equation", "equations"];
  const lines = [
    `Each ${one} stands above the ${all} that it reads: values flow up.`,
    `A click on it, or Enter in the list of ${all}, shows what is known of it. Escape comes back to this text.`,
    "The wheel, two fingers, + and − zoom. Dragging and arrows move. 0 or a double click shows all.",
    ...(isCircuit ? ["The search takes a kind, a variable, a name or a key of parameters; kind:sum, var:x3 and name:7.weight search in one of these."] : ["The search takes an operation, or a part of an equation."]),
    ...(isCircuit && record.groups ? ["A group computes alike layers at once; each of these is a fold of it. Rings mark the layers of the same group."] : []),
    ...(record.rows ? ["A row of data, chosen above, shows the values of all units, and the path of its most probable states."] : []),
  ];
  return h("details", {}, h("summary", {}, "How to read this page"), h("ul", {}, ...lines.map((line) => h("li", {}, line))));
}

function stageKinds(graph: Graph): [string, Role, number][] {
  const counts = new Map<number, number>();
  graph.stage.kind.forEach((kind) => counts.set(kind, (counts.get(kind) ?? 0) + 1));
  return graph.stage.kinds.map(([name, role], kind) => [name, role, counts.get(kind) ?? 0]);
}

function equationPart(panel: HTMLElement, graph: Graph, node: number, actions: Actions): void {
  const { record, stage } = graph;
  const kept = stage.kept?.[node];
  const bodies = stage.nested?.[node] ?? [];
  panel.append(
    section("Equation", code([record.texts[stage.equation![node]]])),
    facts([
      ["reads", links(graph, stage.inputs[node], actions)],
      ["read by", links(graph, graph.readers[node], actions)],
      ["from", record.texts[stage.source![node]]],
      ["constant", kept === null || kept === undefined ? "" : record.texts[kept]],
      ["result", stage.outputs.includes(node) ? "yes" : ""],
    ]),
  );
  if (bodies.length)
    panel.append(
      section("Nested bodies", ...bodies.map((body) => h("button", { type: "button", class: "wide", click: () => actions.enter(body) }, `open ${record.stages[body].name}, ${record.stages[body].kind.length} equations`))),
    );
}

function scopeOf(graph: Graph, node: number, row: Row | null): HTMLElement {
  const { record } = graph;
  const variables = graph.variables(node);
  const text = `${variables.length.toLocaleString("en")} of ${record.variables!.count.toLocaleString("en")} variables`;
  if (record.variables!.image) return h("div", { class: "scope" }, pixels(record, variables, row), h("p", {}, text));
  const names = variables.map((variable) => () => {
    const name = variableName(record, variable);
    const [value, note] = row ? cell(row, variable) : ["", ""];
    const isCut = name.length > LETTERS || value.length > LETTERS;
    return h(
      "span",
      { class: "chip", title: isCut && `${name} ${value}` },
      h("bdi", {}, clipped(name, LETTERS)),
      value ? h("b", {}, " ", h("bdi", {}, clipped(value, LETTERS)), note) : null,
    );
  });
  return h("div", {}, limited(names, "chips"), h("p", { class: "quiet" }, text));
}

/** Elements of which the first are there, and a button that shows the others. */
function limited(items: readonly (HTMLElement | (() => HTMLElement))[], kind = "links"): HTMLElement {
  const made = (some: typeof items) => some.map((item) => (typeof item === "function" ? item() : item));
  const rest = items.slice(MOST);
  const span = h("span", { class: kind }, ...made(items.slice(0, MOST)));
  if (rest.length) {
    const more: HTMLButtonElement = h("button", { type: "button", click: () => more.replaceWith(...made(rest)) }, `and ${rest.length.toLocaleString("en")} more`);
    span.append(more);
  }
  return span;
}

/** The text of a value of a row, and a word on it where it was missing. */
function cell(row: Row, variable: number): [string, string] {
  const isGiven = row.x[variable] !== null;
  const value = row.x[variable] ?? row.completed?.[variable] ?? null;
  if (value === null) return ["missing", ""];
  const text = row.cells?.[variable] ?? valueText(value);
  return [text.trim() ? text : JSON.stringify(text), isGiven ? "" : " (most probable)"];
}

/** The image with the pixels of a scope lit; with a row, its values, where those that were missing are filled in. */
function pixels(record: Explored, variables: number[], row: Row | null): HTMLCanvasElement {
  const [, height, width] = record.variables!.image!;
  const canvas = h("canvas", { role: "img", "aria-label": `${variables.length} pixels of the image` });
  [canvas.width, canvas.height] = [width, height];
  canvas.style.aspectRatio = `${width} / ${height}`;
  const context = canvas.getContext("2d")!;
  const values = row ? Array.from({ length: height * width }, (_, v) => row.x[v] ?? row.completed?.[v] ?? null) : null;
  const [low, high] = rangeOf([0, ...(values ?? [])]);
  const lit = new Set(variables.map((variable) => variable % (height * width)));
  const [on, off] = ["lit", "unlit"].map((name) => getComputedStyle(document.querySelector(".plica-explorer")!).getPropertyValue(`--${name}`).trim());
  for (let v = 0; v < height * width; v++) {
    context.globalAlpha = 1;
    context.fillStyle = lit.has(v) ? on : off;
    const value = values?.[v] ?? null;
    if (typeof value === "number") context.globalAlpha = 0.12 + (0.88 * (value - low)) / (high - low || 1);
    context.fillRect(v % width, Math.floor(v / width), 1, 1);
  }
  return canvas;
}

function rowPart(record: Explored, row: Row, node: number): HTMLElement {
  const values = row.values[node];
  if (!values) return h("p", {}, "No output depends on this layer.");
  const reached = row.units?.[node] ?? -1;
  const [low, high] = rangeOf(values);
  const list = h("ol", { class: "units", start: "0", tabindex: "0", "aria-label": "values of the units" });
  values.forEach((value, unit) => {
    const share = typeof value !== "number" ? 0 : high > low ? 0.06 + (0.94 * (value - low)) / (high - low) : 1;
    list.append(
      h("li", unit === reached ? { class: "reached" } : {}, h("span", { class: "bar", style: `--share:${share.toFixed(3)}` }), h("span", {}, valueText(value))),
    );
  });
  const states = !row.units ? (row.note ?? `No most probable states: ${record.rows_note ?? ""}`) : reached < 0 ? "The most probable states do not reach this layer." : `The most probable states reach it at unit ${reached}.`;
  return h("div", {}, h("p", {}, `The ${record.logarithmic ? "logarithm of the value" : "value"} of each unit on the way up. `, states), list);
}

function parameterPart(record: Explored, [name, text, tensors]: [string, number, number[]]): HTMLElement {
  const part = h("div", { class: "parameter" }, h("h4", {}, name), h("p", { class: "quiet" }, record.texts[text]));
  for (const index of tensors) {
    const tensor = record.tensors![index];
    part.append(
      h("p", {}, h("code", {}, tensor.key), ` ${tensor.shape.join(" × ")}${tensor.learnable ? "" : ", fixed"}`),
      ...(tensor.counts ? [histogram(tensor), h("p", { class: "quiet" }, `${tensor.sizes ? "of the sizes: " : ""}mean ${number(tensor.mean!)}, standard deviation ${number(tensor.deviation!)}`)] : []),
    );
  }
  return part;
}

function histogram(tensor: Tensor): HTMLElement {
  const most = Math.max(...tensor.counts!);
  const [low, high] = tensor.range!;
  const width = (high - low) / tensor.counts!.length;
  const bars = tensor.counts!.map((count, i) =>
    h("span", { style: `height:${((100 * count) / most).toFixed(1)}%`, title: `${count} from ${number(low + i * width)} to ${number(low + (i + 1) * width)}` }),
  );
  const label = `histogram of ${tensor.sizes ? "the sizes of " : ""}${tensor.key}, from ${number(low)} to ${number(high)}`;
  return h("div", { class: "histogram" }, h("div", { class: "bars", role: "img", "aria-label": label }, ...bars), h("div", { class: "ends" }, h("span", {}, number(low)), h("span", {}, number(high))));
}

function foldPart(record: Explored, graph: Graph, node: number, actions: Actions): HTMLElement {
  const sizes = record.stages[2].sizes!;
  const part = h("div", {});
  for (const [group, fold] of graph.folds(node))
    part.append(
      h("p", { class: "fold" }, `fold ${fold} of ${sizes[group]} in `, h("button", { type: "button", click: () => actions.group(group) }, `group ${group}`), sizes[group] > 1 ? "; its members are ringed" : ""),
    );
  if (!graph.folds(node).length) part.append(h("p", {}, "No output depends on it, so that nothing computes it."));
  const rules = [...new Set(graph.stage.rules?.[node] ?? [])];
  if (rules.length) part.append(h("ul", { class: "rules" }, ...rules.map((rule) => h("li", {}, record.texts[rule]))));
  else if (graph.stage.rules) part.append(h("p", { class: "quiet" }, "rewritten by no rule"));
  return part;
}

function membersPart(record: Explored, group: number, size: number): HTMLElement {
  const described = record.stages[0];
  const names: string[] = [];
  described.folds!.forEach((folds, layer) => {
    for (let i = 0; i < folds.length; i += 2) if (folds[i] === group) names.push(`${described.kinds[described.kind[layer]][0]} ${layer}`);
  });
  const unique = [...new Set(names)];
  return h("div", {}, h("p", {}, `${size} fold${size === 1 ? "" : "s"}, of the layers`), limited(unique.map((name) => h("span", {}, name))));
}

function groupPart(panel: HTMLElement, record: Explored, number_: number): void {
  const group = record.groups![number_];
  if (group.seconds !== null) panel.append(section("Share of the time", shareBar(record, group.seconds)));
  const count = group.equations.length;
  panel.append(section(`Equations of group ${number_}`, count ? code(group.equations) : h("p", {}, "none, it is simplified away")));
  if (group.code.length) panel.append(section("Generated lines", code(group.code)));
}

function totalSeconds(record: Explored): number {
  return Object.values(record.seconds ?? {}).reduce((sum, seconds) => sum + seconds, 0);
}

function shareBar(record: Explored, seconds: number): HTMLElement {
  const share = seconds / Math.max(totalSeconds(record), 1e-12);
  return h("div", { class: "share" }, h("span", { class: "bar", style: `--share:${share.toFixed(4)}` }), h("span", {}, `${(100 * share).toFixed(1)} %, ${time(seconds)}`));
}

function timesPart(record: Explored, actions: Actions): HTMLElement {
  const table = h("div", { class: "times" });
  const groups = record.groups!.reduce((sum, group) => sum + (group.seconds ?? 0), 0);
  const beside = totalSeconds(record) - groups;
  record.groups!.forEach((group, number_) => {
    if (group.seconds === null) return;
    table.append(h("button", { type: "button", click: () => actions.group(number_) }, `group ${number_}`), shareBar(record, group.seconds));
  });
  table.append(h("span", { title: "equations of no group" }, "other"), shareBar(record, beside));
  return table;
}

function links(graph: Graph, nodes: number[], actions: Actions): HTMLElement | string {
  if (!nodes.length) return "";
  return limited(nodes.map((node) => () => h("button", { type: "button", click: () => actions.select(node) }, graph.name(node))));
}

function facts(rows: [string, string | HTMLElement][]): HTMLElement {
  const known = rows.filter(([, value]) => value !== "");
  return h("dl", {}, ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function section(title: string, ...content: (HTMLElement | string)[]): HTMLElement {
  return h("section", {}, h("h3", {}, title), ...content);
}

function code(lines: string[]): HTMLElement {
  return h("pre", { tabindex: "0" }, lines.join("\n"));
}

/** The least and the largest number. */
function rangeOf(values: readonly Entry[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (typeof value === "number") [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

const NAMES: Record<string, string> = { inf: "∞", "-inf": "−∞", nan: "not a number" };

function valueText(value: Entry): string {
  if (value === null) return "−∞";
  return typeof value === "number" ? number(value) : (NAMES[value] ?? value);
}

export function number(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(5)));
}

function time(seconds: number): string {
  return seconds < 1e-3 ? `${(1e6 * seconds).toFixed(0)} µs` : `${(1e3 * seconds).toFixed(2)} ms`;
}

