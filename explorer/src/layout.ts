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

export async function layOut(graph: Graph, elk: Elk | null): Promise<Layout> {
  const start = performance.now();
  const node = graph.size <= CARDS ? CARD : TILE;
  const layout = graph.size > SINGLE ? await inBlocks(graph, node, elk) : await oneByOne(graph, node, elk);
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
  const placed = await elk({ id: "root", layoutOptions: { ...OPTIONS, "elk.spacing.nodeNode": gap }, children, edges });
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
  if (elk) await placeByElk(blocks, elk);
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
  const right = Math.max(...blocks.map((block) => block.x + block.width));
  const bottom = Math.max(...blocks.map((block) => block.y + block.height));
  const left = Math.min(...blocks.map((block) => block.x));
  const top = Math.min(...blocks.map((block) => block.y));
  return { x, y, node, bends: new Map(), blocks, box: [left, top, right, bottom], engine: elk ? "elk" : "rows" };
}

async function placeByElk(blocks: Block[], elk: Elk): Promise<void> {
  const children = blocks.map(({ width, height }, i) => ({ id: `${i}`, width, height })).reverse();
  const edges = blocks.flatMap(({ reads }, i) =>
    [...reads.keys()].filter((child) => child !== i).map((child) => ({ id: `${i} ${child}`, sources: [`${i}`], targets: [`${child}`] })),
  );
  const placed = await elk({ id: "root", layoutOptions: { ...OPTIONS, "elk.spacing.nodeNode": "40", "elk.layered.spacing.nodeNodeBetweenLayers": "70" }, children, edges });
  for (const child of placed.children ?? []) Object.assign(blocks[Number(child.id)], { x: child.x ?? 0, y: child.y ?? 0 });
}

function placeInRows(blocks: Block[], graph: Graph): void {
  const rows = new Map<number, Block[]>();
  for (const block of blocks) {
    const depth = graph.depth[block.nodes[0]];
    rows.set(depth, [...(rows.get(depth) ?? []), block]);
  }
  let y = 0;
  for (const depth of [...rows.keys()].sort((a, b) => a - b)) {
    const row = rows.get(depth)!;
    let x = -(row.reduce((sum, block) => sum + block.width + 40, 0) - 40) / 2;
    for (const block of row) {
      Object.assign(block, { x, y });
      x += block.width + 40;
    }
    y += Math.max(...row.map((block) => block.height)) + 70;
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
