// The canvas: draws a graph with detail by level, zooms and moves it, and says which node is under the pointer.

import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from "d3-zoom";
import { clipped } from "./dom";
import { NAMED, type Block, type Layout } from "./layout";
import type { Graph } from "./model";
import type { Role } from "./record";

export interface Marks {
  selected: number;
  /** Nodes that are computed with the selected one. */
  lit: Set<number>;
  /** Nodes that match a search; null without one. */
  found: Set<number> | null;
  /** The unit at which the most probable states of a row reach a node; null without a row. */
  units: number[] | null;
}

interface Colours {
  ink: string;
  muted: string;
  line: string;
  paper: string;
  panel: string;
  accent: string;
  path: string;
  roles: Record<Role, string>;
}

const GLYPHS: Record<Role, string> = { input: "•", sum: "+", product: "×", fused: "⊕", equation: "=" };
const DOTS = 9; // pixels of a node below which it is a plain square
const PIXELS = 22; // and from which it shows its pixels or its sign
const FINE_BLOCKS = 600; // the most blocks that have round corners and curves between them
const FINE_EDGES = 1500; // the most edges that are drawn one by one in blocks

export class View {
  private readonly context: CanvasRenderingContext2D;
  private readonly zooming: ZoomBehavior<HTMLCanvasElement, unknown>;
  private transform: ZoomTransform = zoomIdentity;
  private graph: Graph | null = null;
  private layout: Layout | null = null;
  private marks: Marks = { selected: -1, lit: new Set(), found: null, units: null };
  private hovered = -1;
  private edges: Path2D | null = null;
  private blockPaths: ReturnType<typeof pathsOf> | null = null;
  private frame = 0;
  private tiles = new Map<number, HTMLCanvasElement>();
  private colours: Colours;
  private width = 1;
  private height = 1;
  private grabbed = false;
  readonly frames: number[] = [];

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly tip: HTMLElement,
    private readonly waiting: HTMLElement,
    private readonly chosen: (node: number) => void,
  ) {
    this.context = canvas.getContext("2d")!;
    this.colours = readColours(canvas);
    this.zooming = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([0.005, 6])
      .on("start", () => (this.grabbed = true))
      .on("end", () => (this.grabbed = false))
      .on("zoom", (event: { transform: ZoomTransform }) => {
        this.transform = event.transform;
        this.redraw();
      });
    select(canvas).call(this.zooming).on("dblclick.zoom", null);
    canvas.addEventListener("click", (event) => this.chosen(this.at(event)));
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("pointermove", (event) => this.hover(this.at(event), event));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    new ResizeObserver(() => this.resize()).observe(canvas);
    const restyle = () => {
      this.colours = readColours(canvas);
      this.tiles.clear();
      this.redraw();
    };
    matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", restyle);
    this.resize();
  }

  /** Shows nothing until a layout is there. */
  clear(): void {
    this.graph = this.layout = null;
    this.waiting.hidden = false;
    this.waiting.textContent = "Laying out …";
    this.redraw();
  }

  show(graph: Graph, layout: Layout): void {
    this.waiting.hidden = graph.size > 0;
    this.waiting.textContent = "Nothing is computed: the results are arguments or constants.";
    this.graph = graph;
    this.layout = layout;
    this.edges = this.blockPaths = null;
    this.hovered = -1;
    this.fit();
  }

  mark(marks: Marks): void {
    this.marks = marks;
    this.redraw();
  }

  /** Zooms out to the whole graph. */
  fit(): void {
    if (!this.layout) return;
    const [left, top, right, bottom] = this.layout.box;
    const scale = Math.min((this.width - 32) / (right - left), (this.height - 32) / (bottom - top), 1.4);
    this.zooming.scaleExtent([Math.min(0.005, scale / 2), 6]);
    this.set(zoomIdentity.translate(this.width / 2, this.height / 2).scale(scale).translate(-(left + right) / 2, -(top + bottom) / 2));
  }

  zoomBy(factor: number): void {
    select(this.canvas).call(this.zooming.scaleBy, factor);
  }

  moveBy(x: number, y: number): void {
    select(this.canvas).call(this.zooming.translateBy, x / this.transform.k, y / this.transform.k);
  }

  /** Moves a node into view where it is outside, and zooms in where it is too small to see. */
  reveal(node: number): void {
    if (!this.layout || node < 0) return;
    const [x, y] = this.transform.apply([this.layout.x[node], this.layout.y[node]]);
    const size = this.layout.node[1] * this.transform.k;
    if (size >= 10 && x > 24 && y > 24 && x < this.width - 24 && y < this.height - 24) return;
    const scale = Math.max(this.transform.k, 14 / this.layout.node[1]);
    this.set(zoomIdentity.translate(this.width / 2, this.height / 2).scale(scale).translate(-this.layout.x[node], -this.layout.y[node]));
  }

  /** Where a node is on the canvas, in pixels of the page. */
  position(node: number): [number, number] {
    return this.layout ? this.transform.apply([this.layout.x[node], this.layout.y[node]]) : [0, 0];
  }

  private set(transform: ZoomTransform): void {
    select(this.canvas).call(this.zooming.transform, transform);
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const changed = Math.abs(clientWidth - this.width) > 1;
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = clientWidth * ratio;
    this.canvas.height = clientHeight * ratio;
    if (changed) this.fit();
    this.redraw();
  }

  private at(event: MouseEvent): number {
    if (!this.layout || !this.graph) return -1;
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = this.transform.invert([event.clientX - frame.left, event.clientY - frame.top]);
    const slack = 4 / this.transform.k;
    const [width, height] = this.layout.node;
    let best = -1;
    let least = Infinity;
    for (let node = 0; node < this.graph.size; node++) {
      const dx = Math.abs(this.layout.x[node] - x);
      const dy = Math.abs(this.layout.y[node] - y);
      if (dx <= width / 2 + slack && dy <= height / 2 + slack && dx + dy < least) [best, least] = [node, dx + dy];
    }
    return best;
  }

  private hover(node: number, event?: MouseEvent): void {
    this.canvas.style.cursor = this.grabbed ? "grabbing" : node >= 0 ? "pointer" : "grab";
    if (node >= 0 && this.graph && event && !this.grabbed) {
      const frame = this.canvas.getBoundingClientRect();
      this.tip.textContent = `${this.graph.name(node)}, ${this.graph.note(node)}`;
      this.tip.style.transform = `translate(${Math.min(event.clientX - frame.left + 12, this.width - 170)}px, ${Math.min(event.clientY - frame.top + 14, this.height - 32)}px)`;
    }
    this.tip.hidden = node < 0 || this.grabbed;
    if (node !== this.hovered) {
      this.hovered = node;
      this.redraw();
    }
  }

  private redraw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const start = performance.now();
      this.draw();
      this.frames.push(performance.now() - start);
      if (this.frames.length > 240) this.frames.shift();
    });
  }

  private draw(): void {
    const { context, graph, layout, colours } = this;
    const ratio = this.canvas.width / this.width;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!graph || !layout) return;
    const { x, y, k } = this.transform;
    context.setTransform(k * ratio, 0, 0, k * ratio, x * ratio, y * ratio);
    const [left, top] = this.transform.invert([0, 0]);
    const [right, bottom] = this.transform.invert([this.width, this.height]);
    const [width, height] = layout.node;
    const visible: number[] = [];
    for (let node = 0; node < graph.size; node++) {
      const [nx, ny] = [layout.x[node], layout.y[node]];
      if (nx > left - width && nx < right + width && ny > top - height && ny < bottom + height) visible.push(node);
    }
    context.lineWidth = 1 / k;
    if (layout.blocks) this.drawBlocks(layout.blocks, k);
    this.drawEdges(visible, k);
    const pixels = height * k;
    if (pixels < DOTS) this.drawDots(visible, k);
    else for (const node of visible) this.drawNode(node, pixels);
    const isSmall = pixels < 16;
    for (const node of this.marks.lit) this.ring(node, colours.accent, (isSmall ? 0.8 : 1.6) / k, isSmall ? 0 : 2 / k);
    if (this.hovered >= 0) this.ring(this.hovered, colours.ink, 1.4 / k, 2 / k);
    if (this.marks.selected >= 0) this.ring(this.marks.selected, colours.accent, 3.2 / k, 3.5 / k);
  }

  private drawBlocks(blocks: Block[], k: number): void {
    const { context, colours, graph } = this;
    this.blockPaths ??= pathsOf(blocks);
    context.strokeStyle = colours.line;
    context.globalAlpha = 0.55;
    for (const [count, path] of this.blockPaths.edges) {
      context.lineWidth = Math.max(1.2 / k, 2 + 3 * Math.log2(count));
      context.stroke(path);
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.panel;
    context.lineWidth = 1 / k;
    context.fill(this.blockPaths.frames);
    context.stroke(this.blockPaths.frames);
    for (const block of blocks) {
      const size = Math.min(Math.max(15, 11 / k), block.width / 9, 46);
      if (size * k < 6) continue;
      context.fillStyle = colours.muted;
      context.font = `${size}px system-ui, sans-serif`;
      context.textAlign = "left";
      context.textBaseline = "bottom";
      context.fillText(`${block.nodes.length.toLocaleString("en")} × ${graph!.kind(block.nodes[0])}`, block.x + 2, block.y - 3 / k);
    }
  }

  private drawEdges(visible: number[], k: number): void {
    const { context, graph, layout, colours, marks } = this;
    const near = new Set<number>([marks.selected, this.hovered].filter((node) => node >= 0));
    if (!layout!.blocks) {
      this.edges ??= this.allEdges();
      context.strokeStyle = colours.line;
      context.lineWidth = Math.max(1 / k, 1);
      context.stroke(this.edges);
    } else {
      const count = visible.reduce((sum, node) => sum + graph!.stage.inputs[node].length, 0);
      if (layout!.node[1] * k >= DOTS && count <= FINE_EDGES) this.strokeEdges(visible, colours.line, 1 / k);
    }
    if (marks.units) {
      const path = visible.filter((node) => marks.units![node] >= 0);
      this.strokeEdges(path, colours.path, 1.6 / k, (node, child) => marks.units![node] >= 0 && marks.units![child] >= 0);
    }
    const touching = [...near].flatMap((node) => [node, ...graph!.readers[node]]);
    this.strokeEdges(touching, colours.accent, 2 / k, (node, child) => near.has(node) || near.has(child));
  }

  private allEdges(): Path2D {
    const path = new Path2D();
    for (let node = 0; node < this.graph!.size; node++)
      for (const child of new Set(this.graph!.stage.inputs[node])) this.addEdge(path, node, child);
    return path;
  }

  private strokeEdges(nodes: Iterable<number>, colour: string, width: number, wanted?: (node: number, child: number) => boolean): void {
    const path = new Path2D();
    for (const node of nodes)
      for (const child of new Set(this.graph!.stage.inputs[node])) if (!wanted || wanted(node, child)) this.addEdge(path, node, child);
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.stroke(path);
  }

  private addEdge(path: Path2D, node: number, child: number): void {
    const { x, y, node: size, bends } = this.layout!;
    const points: [number, number][] = [
      [x[node], y[node] + size[1] / 2],
      ...(bends.get(`${node} ${child}`) ?? []),
      [x[child], y[child] - size[1] / 2],
    ];
    for (let i = 1; i < points.length; i++) curve(path, points[i - 1], points[i]);
  }

  private drawDots(visible: number[], k: number): void {
    const { context, graph, layout, colours } = this;
    const side = Math.max(layout!.node[1] * 0.8, 2.2 / k);
    const wide = layout!.node[0] > 60 ? layout!.node[0] * 0.8 : side;
    for (const [role, colour] of Object.entries(colours.roles) as [Role, string][]) {
      for (const faint of [false, true]) {
        context.beginPath();
        for (const node of visible)
          if (graph!.role(node) === role && this.isFaint(node) === faint)
            context.rect(layout!.x[node] - wide / 2, layout!.y[node] - side / 2, wide, side);
        context.fillStyle = colour;
        context.globalAlpha = faint ? 0.18 : 1;
        context.fill();
      }
    }
    context.globalAlpha = 1;
  }

  private isFaint(node: number): boolean {
    const { found, units } = this.marks;
    return (found !== null && !found.has(node)) || (units !== null && units[node] < 0);
  }

  private drawNode(node: number, pixels: number): void {
    const { context, graph, layout, colours } = this;
    const [width, height] = layout!.node;
    const [left, top] = [layout!.x[node] - width / 2, layout!.y[node] - height / 2];
    const role = graph!.role(node);
    const colour = colours.roles[role];
    context.globalAlpha = this.isFaint(node) ? 0.22 : 1;
    if (width > 60) {
      context.fillStyle = colours.paper;
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.beginPath();
      context.roundRect(left, top, width, height, 7);
      context.fill();
      context.stroke();
      this.tile(node, left + 7, top + 7, height - 14, pixels * 0.7, colour);
      if (pixels > 16) {
        context.textAlign = "left";
        context.textBaseline = "middle";
        context.fillStyle = colours.ink;
        context.font = "600 13.5px system-ui, sans-serif";
        context.fillText(clipped(graph!.name(node), 16), left + height, top + height * 0.34, width - height - 6);
        context.fillStyle = colours.muted;
        context.font = "12px system-ui, sans-serif";
        context.fillText(clipped(graph!.note(node), 22), left + height, top + height * 0.7, width - height - 6);
      }
    } else {
      this.tile(node, left, top, height, pixels, colour);
      const isNamed = graph!.size <= NAMED;
      if (isNamed ? pixels > 26 : pixels > 58) {
        context.textAlign = "center";
        context.textBaseline = "top";
        context.fillStyle = colours.muted;
        context.font = `${isNamed ? 11 : 7}px system-ui, sans-serif`;
        context.fillText(isNamed ? graph!.kind(node) : graph!.name(node), left + width / 2, top + height + 2, isNamed ? 74 : 46);
      }
    }
    context.globalAlpha = 1;
  }

  /** The square of a node: the pixels of its scope, or the sign of its role. */
  private tile(node: number, left: number, top: number, side: number, pixels: number, colour: string): void {
    const { context, graph, colours } = this;
    const image = graph!.record.variables?.image;
    const isShown = image && !graph!.isFolded && pixels >= PIXELS && graph!.stage.scope;
    context.fillStyle = colour;
    context.beginPath();
    if (graph!.role(node) === "input" && !isShown) context.arc(left + side / 2, top + side / 2, side / 2, 0, 7);
    else context.roundRect(left, top, side, side, side / 8);
    if (isShown) {
      context.globalAlpha *= 0.22;
      context.fill();
      context.globalAlpha = this.isFaint(node) ? 0.22 : 1;
      context.imageSmoothingEnabled = false;
      context.drawImage(this.pixelsOf(graph!.stage.scope![node], graph!.role(node), image), left, top, side, side);
      return;
    }
    context.fill();
    if (pixels < 12) return;
    context.fillStyle = colours.paper;
    context.font = `600 ${side * 0.62}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(GLYPHS[graph!.role(node)], left + side / 2, top + side / 2 + side * 0.03);
  }

  private pixelsOf(scope: number, role: Role, [, height, width]: [number, number, number]): HTMLCanvasElement {
    const key = scope * 8 + Object.keys(GLYPHS).indexOf(role);
    let tile = this.tiles.get(key);
    if (!tile) {
      tile = document.createElement("canvas");
      [tile.width, tile.height] = [width, height];
      const context = tile.getContext("2d")!;
      context.fillStyle = this.colours.roles[role];
      const runs = this.graph!.record.scopes![scope];
      for (let i = 0; i < runs.length; i += 2)
        for (let v = runs[i]; v < runs[i] + runs[i + 1]; v++) {
          const pixel = v % (height * width);
          context.fillRect(pixel % width, Math.floor(pixel / width), 1, 1);
        }
      this.tiles.set(key, tile);
    }
    return tile;
  }

  private ring(node: number, colour: string, width: number, gap: number): void {
    const { context, layout } = this;
    const [w, h] = layout!.node;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.roundRect(layout!.x[node] - w / 2 - gap, layout!.y[node] - h / 2 - gap, w + 2 * gap, h + 2 * gap, 7);
    context.stroke();
  }
}

function curve(path: Path2D, [x0, y0]: [number, number], [x1, y1]: [number, number]): void {
  const middle = (y0 + y1) / 2;
  path.moveTo(x0, y0);
  path.bezierCurveTo(x0, middle, x1, middle, x1, y1);
}

/** The frames of blocks, and the edges between them by the number of edges that each stands for. */
function pathsOf(blocks: readonly Block[]): { frames: Path2D; edges: Map<number, Path2D> } {
  const isFine = blocks.length <= FINE_BLOCKS;
  const frames = new Path2D();
  const edges = new Map<number, Path2D>();
  for (const block of blocks) {
    if (isFine) frames.roundRect(block.x, block.y, block.width, block.height, 8);
    else frames.rect(block.x, block.y, block.width, block.height);
    for (const [number, count] of block.reads) {
      const child = blocks[number];
      if (child === block) continue;
      if (!edges.has(count)) edges.set(count, new Path2D());
      const path = edges.get(count)!;
      const [from, to]: [number, number][] = [[block.x + block.width / 2, block.y + block.height], [child.x + child.width / 2, child.y]];
      if (isFine) curve(path, from, to);
      else {
        path.moveTo(...from);
        path.lineTo(...to);
      }
    }
  }
  return { frames, edges };
}

function readColours(element: HTMLElement): Colours {
  const style = getComputedStyle(element);
  const value = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const roles = Object.fromEntries((Object.keys(GLYPHS) as Role[]).map((role) => [role, value(role)])) as Record<Role, string>;
  return {
    ink: value("ink"),
    muted: value("muted"),
    line: value("edge"),
    paper: value("paper"),
    panel: value("panel"),
    accent: value("accent"),
    path: value("path"),
    roles,
  };
}
