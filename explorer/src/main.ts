// Makes the explorer of a record: stages, search, canvas, list of layers and panel, and the address that keeps them.

import "./style.css";
import { h } from "./dom";
import { loadElk } from "./elk";
import { LayerList } from "./list";
import { layOut, type Layout } from "./layout";
import { Graph, matcher } from "./model";
import { meaningOf, nodePanel, wholePanel } from "./panel";
import { VERSION, type Explored } from "./record";
import { View } from "./view";

const SEARCH = "a kind, variable, name or key of parameters; kind:sum, var:x3 and name:7.weight search in one of these";

class Explorer {
  private readonly graphs: Graph[];
  private readonly layouts = new Map<number, Promise<Layout>>();
  private readonly view: View;
  private readonly elk: ReturnType<typeof loadElk>;
  private readonly tabs: HTMLButtonElement[] = [];
  private readonly list = new LayerList(
    (node) => this.select(node),
    (node) => this.view.reveal(node),
  );
  private readonly count = h("p", { class: "count", role: "status" });
  private readonly panel = h("aside", { class: "panel", "aria-label": "what is selected", tabindex: "0" });
  private readonly search = h("input", { type: "search", placeholder: "Search", "aria-label": "search by kind, variable or name", title: SEARCH });
  private readonly rows = h("select", { "aria-label": "row of data" });
  private found: number[] = [];
  private stage = 0;
  private selected = -1;
  private row = -1;

  constructor(
    root: HTMLElement,
    private readonly record: Explored,
    elkScript: HTMLScriptElement | null,
    private readonly keepsAddress: boolean,
  ) {
    this.graphs = record.stages.map((stage, number) => new Graph(record, stage, number));
    this.elk = loadElk(elkScript);
    const canvas = h("canvas", { "aria-hidden": "true" });
    const tip = h("div", { class: "tip", hidden: true });
    const waiting = h("p", { class: "waiting" }, "Laying out …");
    const stageOf = h("div", { class: "canvas", role: "application", tabindex: "0", "aria-label": "graph; plus and minus zoom, arrows move, 0 shows all, Enter opens the list of layers" }, canvas, waiting, tip, this.zoomButtons());
    root.append(
      h("header", {}, h("h1", { title: record.title }, record.title), this.stageButtons(), h("div", { class: "tools" }, this.rowChoice(), this.search)),
      h("div", { class: "columns" }, h("nav", { "aria-label": "layers" }, this.count, this.list.element), stageOf, this.panel),
    );
    this.view = new View(canvas, tip, waiting, (node) => this.select(node));
    stageOf.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("keydown", (event) => {
      const isField = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key === "Escape" && !isField) this.select(-1);
    });
    this.search.addEventListener("input", () => {
      this.find();
      this.update();
    });
    if (keepsAddress) addEventListener("hashchange", () => this.read());
    this.read();
  }

  private zoomButtons(): HTMLElement {
    const button = (text: string, label: string, click: () => void) => h("button", { type: "button", "aria-label": label, title: label, click }, text);
    return h("div", { class: "zoom" }, button("+", "zoom in", () => this.view.zoomBy(1.5)), button("−", "zoom out", () => this.view.zoomBy(1 / 1.5)), button("⤢", "show all", () => this.view.fit()));
  }

  private stageButtons(): HTMLElement {
    this.record.stages.forEach((stage, number) => {
      this.tabs.push(h("button", { type: "button", "aria-pressed": "false", title: meaningOf(stage.name), click: () => this.show(number) }, stage.name));
    });
    return h("div", { class: "stages", role: "group", "aria-label": "stage" }, ...(this.tabs.length > 1 ? this.tabs : []));
  }

  private rowChoice(): HTMLElement | null {
    if (!this.record.rows) return null;
    this.rows.append(h("option", { value: "-1" }, "no row"), ...this.record.rows.map((_, i) => h("option", { value: `${i}` }, `row ${i}`)));
    this.rows.addEventListener("change", () => {
      this.row = Number(this.rows.value);
      this.update();
    });
    return this.rows;
  }

  private get graph(): Graph {
    return this.graphs[this.stage];
  }

  private show(stage: number): void {
    const node = this.selected < 0 || this.record.subject !== "circuit" ? -1 : this.graphs[stage].counterpart(this.graph, this.selected);
    this.open(stage, node);
  }

  private open(stage: number, node: number): void {
    this.stage = stage;
    this.selected = node;
    this.tabs.forEach((tab, number) => tab.setAttribute("aria-pressed", String(number === stage)));
    this.find();
    void this.draw();
  }

  private async draw(): Promise<void> {
    const stage = this.stage;
    if (!this.layouts.has(stage)) this.layouts.set(stage, this.elk.then((elk) => layOut(this.graphs[stage], elk)));
    this.view.clear();
    const layout = await this.layouts.get(stage)!;
    if (stage !== this.stage) return;
    this.view.show(this.graph, layout);
    this.update();
    Object.assign(window, { plicaExplorerState: { view: this.view, layout, graph: this.graph } });
    document.documentElement.dataset.laidOut = `${stage}`;
  }

  private find(): void {
    const { graph } = this;
    const matches = matcher(graph, this.search.value);
    this.found = [];
    for (let node = 0; node < graph.size; node++) if (matches(node)) this.found.push(node);
    const word = this.record.subject === "program" ? "equation" : graph.isFolded ? "group" : "layer";
    const all = `${graph.size.toLocaleString("en")} ${word}${graph.size === 1 ? "" : "s"}`;
    this.count.textContent = this.search.value.trim() ? `${this.found.length.toLocaleString("en")} of ${all}` : all;
    this.list.show(graph, this.found);
  }

  private select(node: number): void {
    this.selected = node;
    this.update();
  }

  private update(): void {
    const { graph, selected } = this;
    const isSearch = this.search.value.trim() !== "";
    const found = isSearch ? new Set(this.found) : null;
    const row = this.record.rows?.[this.row] ?? null;
    const lit = selected < 0 || graph.isFolded ? [] : graph.members(graph.groups(selected)).filter((node) => node !== selected);
    this.view.mark({ selected, lit: new Set(lit), found, units: this.stage === 0 ? (row?.units ?? null) : null });
    this.list.select(selected);
    const actions = {
      select: (node: number) => {
        this.select(node);
        this.view.reveal(node);
      },
      enter: (stage: number) => this.open(stage, -1),
      group: (group: number) => this.open(this.graphs.findIndex((other) => other.isFolded), group),
    };
    this.panel.replaceChildren(selected < 0 ? wholePanel(this.record, graph, actions) : nodePanel(graph, selected, row, actions));
    this.write();
  }

  private write(): void {
    if (!this.keepsAddress) return;
    const state = new URLSearchParams({ stage: this.graph.stage.name });
    if (this.selected >= 0) state.set("layer", String(this.selected));
    if (this.row >= 0) state.set("row", String(this.row));
    if (this.search.value.trim()) state.set("find", this.search.value.trim());
    if (`#${state}` !== location.hash) history.replaceState(null, "", `#${state}`);
  }

  private read(): void {
    const state = new URLSearchParams(this.keepsAddress ? location.hash.slice(1) : "");
    const stage = Math.max(0, this.record.stages.findIndex(({ name }) => name === state.get("stage")));
    const place = (name: string) => (/^\d+$/.test(state.get(name) ?? "") ? Number(state.get(name)) : -1);
    const [node, row] = [place("layer"), place("row")];
    this.row = this.record.rows?.[row] ? row : -1;
    this.rows.value = String(this.row);
    this.search.value = state.get("find") ?? "";
    this.open(stage, node < this.graphs[stage].size ? node : -1);
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.target instanceof HTMLButtonElement || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") this.view.zoomBy(1.3);
    else if (event.key === "-") this.view.zoomBy(1 / 1.3);
    else if (event.key === "0") this.view.fit();
    else if (event.key === "Enter") this.list.focus(this.selected);
    else if (event.key in moves) this.view.moveBy(...moves[event.key]);
    else return;
    event.preventDefault();
  }
}

/** Fills an element with the explorer of the record that lies in a script element beside it. */
export function mount(root: HTMLElement): void {
  const data = root.querySelector<HTMLScriptElement>("script.record");
  const record = JSON.parse(data?.textContent ?? "null") as Explored | null;
  if (record?.format !== "plica-explorer" || record.version !== VERSION) {
    root.append(h("p", {}, `This page shows records of version ${VERSION}, found ${record?.version ?? "none"}.`));
    return;
  }
  new Explorer(root, record, root.querySelector<HTMLScriptElement>("script.elk"), root.dataset.address === "kept");
}

for (const root of document.querySelectorAll<HTMLElement>(".plica-explorer")) mount(root);
