// Where the nodes of a graph stand. elkjs lays out small graphs node by node. Of large ones it lays out blocks, each of
// the nodes of one kind at one depth, and the nodes of a block stand in a grid.

import type { ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import type { Graph } from "./model";

export interface Block {
  x: number;
  y: number;
  width: number;
  height: number;
  nodes: number[];
  reads: Map<number, number>;
}

export interface Layout {
  /** Centres. */
  x: Float64Array;
  y: Float64Array;
  /** Width and height of a node. */
  node: [number, number];
  /** The points of each edge between its ends, by "node input". */
  bends: Map<string, [number, number][]>;
  blocks: Block[] | null;
  box: [number, number, number, number];
  milliseconds: number;
  engine: string;
}

export type Elk = (graph: ElkNode) => Promise<ElkNode>;

const CARDS = 16; // up to so many nodes are cards with text
export const NAMED = 80; // up to so many tiles have room for their names
const SINGLE = 320; // up to so many nodes are laid out one by one
const CARD: [number, number] = [168, 50];
const TILE: [number, number] = [40, 40];
const PITCH = 48;
const LONG = 24; // rows of a narrow graph from which it is wrapped into columns
const TITLE = 26; // above the nodes of a block

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.edgeRouting": "POLYLINE",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  "elk.spacing.nodeNode": "14",
  "elk.layered.spacing.nodeNodeBetweenLayers": "42",
  "elk.layered.spacing.edgeNodeBetweenLayers": "14",
};
const WRAPPED = { "elk.layered.wrapping.strategy": "MULTI_EDGE", "elk.aspectRatio": "1.3" };

/** Lays out a graph by elkjs; in plain rows where there is none, or where it fails, as it does on very long chains. */
export async function layOut(graph: Graph, elk: Elk | null): Promise<Layout> {
  const start = performance.now();
  const node = graph.size <= CARDS ? CARD : TILE;
  const place = graph.size > SINGLE ? inBlocks : oneByOne;
  const layout = await place(graph, node, elk).catch(() => place(graph, node, null));
  return { ...layout, milliseconds: performance.now() - start };
}

type Placed = Omit<Layout, "milliseconds">;

async function oneByOne(graph: Graph, node: [number, number], elk: Elk | null): Promise<Placed> {
  const x = new Float64Array(graph.size);
  const y = new Float64Array(graph.size);
  const bends: Layout["bends"] = new Map();
  const [width, height] = node;
  if (!elk) {
    const places = graph.stage.places ?? rowsOf(graph);
    places.forEach(([column, row], i) => {
      x[i] = column * (width + 14);
      y[i] = row * (height + 46);
    });
    return { x, y, node, bends, blocks: null, box: boxOf(x, y, node), engine: "rows" };
  }
  const edges: ElkExtendedEdge[] = graph.stage.inputs.flatMap((inputs, i) =>
    [...new Set(inputs)].map((child) => ({ id: `${i} ${child}`, sources: [`${i}`], targets: [`${child}`] })),
  );
  const children = Array.from({ length: graph.size }, (_, i) => ({ id: `${i}`, width, height })).reverse();
  const gap = graph.size <= NAMED ? "36" : OPTIONS["elk.spacing.nodeNode"];
  const depth = 1 + Math.max(0, ...graph.depth);
  const layoutOptions = { ...OPTIONS, "elk.spacing.nodeNode": gap, ...(depth > LONG && graph.size < 4 * depth ? WRAPPED : {}) };
  const placed = await elk({ id: "root", layoutOptions, children, edges });
  for (const child of placed.children ?? []) {
    x[Number(child.id)] = (child.x ?? 0) + width / 2;
    y[Number(child.id)] = (child.y ?? 0) + height / 2;
  }
  for (const edge of placed.edges ?? []) {
    const points = edge.sections?.flatMap((section) => section.bendPoints ?? []) ?? [];
    if (points.length) bends.set(edge.id, points.map((point) => [point.x, point.y]));
  }
  return { x, y, node, bends, blocks: null, box: boxOf(x, y, node), engine: "elk" };
}

/** The column and the row of each node: one row for each depth. */
function rowsOf(graph: Graph): [number, number][] {
  const counts = new Map<number, number>();
  graph.depth.forEach((depth) => counts.set(depth, (counts.get(depth) ?? 0) + 1));
  const used = new Map<number, number>();
  return Array.from(graph.depth, (depth) => {
    const column = used.get(depth) ?? 0;
    used.set(depth, column + 1);
    return [column - (counts.get(depth)! - 1) / 2, depth];
  });
}

async function inBlocks(graph: Graph, node: [number, number], elk: Elk | null): Promise<Placed> {
  const numbers = new Map<string, number>();
  const blockOf = new Int32Array(graph.size);
  const members: number[][] = [];
  for (let i = 0; i < graph.size; i++) {
    const key = `${graph.depth[i]} ${graph.stage.kind[i]}`;
    if (!numbers.has(key)) {
      numbers.set(key, members.length);
      members.push([]);
    }
    blockOf[i] = numbers.get(key)!;
    members[blockOf[i]].push(i);
  }
  const grids = members.map((nodes) => grid(graph, nodes));
  const blocks: Block[] = members.map((nodes, i) => ({
    nodes,
    x: 0,
    y: 0,
    width: Math.max(grids[i].columns * PITCH + 16, 180),
    height: grids[i].rows * PITCH + TITLE + 12,
    reads: new Map(),
  }));
  graph.stage.inputs.forEach((inputs, i) => {
    const reads = blocks[blockOf[i]].reads;
    for (const child of inputs) reads.set(blockOf[child], (reads.get(blockOf[child]) ?? 0) + 1);
  });
  const isByElk = elk !== null && blocks.length <= SINGLE;
  if (isByElk) await placeByElk(blocks, elk);
  else placeInRows(blocks, graph);
  const x = new Float64Array(graph.size);
  const y = new Float64Array(graph.size);
  blocks.forEach((block, i) => {
    const left = block.x + block.width / 2 - (grids[i].columns * PITCH) / 2;
    grids[i].cells.forEach(([column, row], place) => {
      x[block.nodes[place]] = left + (column + 0.5) * PITCH;
      y[block.nodes[place]] = block.y + TITLE + (row + 0.5) * PITCH;
    });
  });
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const block of blocks) {
    [left, right] = [Math.min(left, block.x), Math.max(right, block.x + block.width)];
    [top, bottom] = [Math.min(top, block.y), Math.max(bottom, block.y + block.height)];
  }
  return { x, y, node, bends: new Map(), blocks, box: [left, top, right, bottom], engine: isByElk ? "elk" : "rows" };
}

async function placeByElk(blocks: Block[], elk: Elk): Promise<void> {
  const children = blocks.map(({ width, height }, i) => ({ id: `${i}`, width, height })).reverse();
  const edges = blocks.flatMap(({ reads }, i) =>
    [...reads.keys()].filter((child) => child !== i).map((child) => ({ id: `${i} ${child}`, sources: [`${i}`], targets: [`${child}`] })),
  );
  const placed = await elk({ id: "root", layoutOptions: { ...OPTIONS, "elk.spacing.nodeNode": "40", "elk.layered.spacing.nodeNodeBetweenLayers": "70" }, children, edges });
  for (const child of placed.children ?? []) Object.assign(blocks[Number(child.id)], { x: child.x ?? 0, y: child.y ?? 0 });
}

/** One row for each depth; rows that are many and narrow stand in columns, from left to right. */
function placeInRows(blocks: Block[], graph: Graph): void {
  const rows: { blocks: Block[]; width: number; height: number }[] = [];
  for (const block of blocks) {
    const row = (rows[graph.depth[block.nodes[0]]] ??= { blocks: [], width: -40, height: 0 });
    row.blocks.push(block);
    row.width += block.width + 40;
    row.height = Math.max(row.height, block.height);
  }
  const widest = rows.reduce((most, row) => Math.max(most, row.width), 0) + 60;
  const total = rows.reduce((sum, row) => sum + row.height + 70, 0);
  const most = rows.length > LONG ? Math.max(Math.sqrt((total * widest) / 1.3), 2 * widest) : Infinity;
  let [left, y] = [0, 0];
  for (const row of rows) {
    if (y > 0 && y + row.height > most) [left, y] = [left + widest, 0];
    let x = left - row.width / 2;
    for (const block of row.blocks) {
      Object.assign(block, { x, y });
      x += block.width + 40;
    }
    y += row.height + 70;
  }
}

interface Grid {
  columns: number;
  rows: number;
  cells: [number, number][];
}

/** The cells of the nodes of a block: as their scopes lie on the image where they make up a grid, else row by row. */
function grid(graph: Graph, nodes: number[]): Grid {
  const image = graph.record.variables?.image;
  if (image && nodes.length > 3) {
    const [, height, width] = image;
    const centres = nodes.map((node) => centre(graph.variables(node), height, width));
    const xs = [...new Set(centres.map(([x]) => x))].sort((a, b) => a - b);
    const ys = [...new Set(centres.map(([, y]) => y))].sort((a, b) => a - b);
    const cells = centres.map(([x, y]): [number, number] => [xs.indexOf(x), ys.indexOf(y)]);
    const distinct = new Set(cells.map(([x, y]) => x + y * xs.length)).size;
    if (distinct === nodes.length && xs.length * ys.length <= 1.5 * nodes.length) return { columns: xs.length, rows: ys.length, cells };
  }
  const columns = Math.ceil(Math.sqrt(nodes.length * 5));
  return {
    columns,
    rows: Math.ceil(nodes.length / columns),
    cells: nodes.map((_, place) => [place % columns, Math.floor(place / columns)]),
  };
}

function centre(variables: number[], height: number, width: number): [number, number] {
  let x = 0;
  let y = 0;
  for (const variable of variables) {
    const pixel = variable % (height * width);
    x += pixel % width;
    y += Math.floor(pixel / width);
  }
  const count = Math.max(variables.length, 1);
  return [Math.round((x / count) * 100) / 100, Math.round((y / count) * 100) / 100];
}

function boxOf(x: Float64Array, y: Float64Array, [width, height]: [number, number]): Layout["box"] {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < x.length; i++) {
    left = Math.min(left, x[i] - width / 2);
    right = Math.max(right, x[i] + width / 2);
    top = Math.min(top, y[i] - height / 2);
    bottom = Math.max(bottom, y[i] + height / 2);
  }
  return x.length ? [left, top, right, bottom] : [0, 0, 1, 1];
}
