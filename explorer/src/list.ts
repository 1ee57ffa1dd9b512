// The list of layers: buttons that Tab and arrows reach one after the other. Only those near the visible part exist.

import { h } from "./dom";
import type { Graph } from "./model";

const HEIGHT = 26; // pixels of a line
const BEYOND = 30; // lines before and after the visible ones

export class LayerList {
  readonly element = h("div", { class: "layers" });
  private readonly items = h("ul", {});
  private readonly lines = new Map<number, HTMLButtonElement>();
  private graph: Graph | null = null;
  private shown: number[] = [];
  private places = new Map<number, number>();
  private selected = -1;

  constructor(
    private readonly chosen: (node: number) => void,
    private readonly focused: (node: number) => void,
  ) {
    this.element.append(this.items);
    this.element.addEventListener("scroll", () => this.render());
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.render()).observe(this.element);
  }

  /** Lists some nodes of a graph. */
  show(graph: Graph, nodes: number[]): void {
    this.graph = graph;
    this.shown = nodes;
    this.places = new Map(nodes.map((node, place) => [node, place]));
    this.lines.clear();
    this.items.replaceChildren();
    this.items.style.height = `${nodes.length * HEIGHT}px`;
    this.render();
  }

  select(node: number): void {
    this.lines.get(this.selected)?.removeAttribute("aria-current");
    this.selected = node;
    const place = this.places.get(node);
    const { scrollTop, clientHeight } = this.element;
    if (place !== undefined && (place * HEIGHT < scrollTop || (place + 1) * HEIGHT > scrollTop + clientHeight)) {
      this.element.scrollTop = Math.max(0, place * HEIGHT - clientHeight / 2);
      this.render();
    }
    this.lines.get(node)?.setAttribute("aria-current", "true");
  }

  /** Puts the focus on a node, or on the first. */
  focus(node: number): void {
    const place = this.places.get(node) ?? 0;
    if (!this.shown.length) return;
    this.element.scrollTop = Math.max(0, place * HEIGHT - this.element.clientHeight / 2);
    this.render();
    this.lines.get(this.shown[place])?.focus();
  }

  private render(): void {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / HEIGHT) - BEYOND);
    const last = Math.min(this.shown.length, Math.ceil((scrollTop + clientHeight) / HEIGHT) + BEYOND);
    for (const [node, button] of this.lines) {
      const place = this.places.get(node)!;
      if ((place < first || place >= last) && button !== document.activeElement) {
        button.parentElement!.remove();
        this.lines.delete(node);
      }
    }
    for (let place = first; place < last; place++) {
      const node = this.shown[place];
      if (this.lines.has(node)) continue;
      const button = h(
        "button",
        { type: "button", class: this.graph!.role(node), click: () => this.chosen(node), focus: () => this.focused(node) },
        this.graph!.name(node),
      );
      if (node === this.selected) button.setAttribute("aria-current", "true");
      const item = h("li", { "aria-setsize": `${this.shown.length}`, "aria-posinset": `${place + 1}`, style: `top:${place * HEIGHT}px` }, button);
      item.dataset.place = `${place}`;
      const next = [...this.items.children].find((other) => Number((other as HTMLElement).dataset.place) > place);
      this.items.insertBefore(item, next ?? null);
      this.lines.set(node, button);
    }
  }

  private key(event: KeyboardEvent): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const item = document.activeElement?.closest<HTMLElement>("li");
    if (!step || !item) return;
    this.lines.get(this.shown[Number(item.dataset.place) + step])?.focus();
    event.preventDefault();
  }
}
