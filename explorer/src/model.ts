// One stage of a record as a graph: what its nodes are called, read and model, and where they are in other stages.

import type { Explored, Role, Stage } from "./record";

export class Graph {
  readonly size: number;
  readonly readers: number[][];
  /** The length of the longest path from each node up to one that nothing reads. */
  readonly depth: Int32Array;

  constructor(
    readonly record: Explored,
    readonly stage: Stage,
    readonly number: number,
  ) {
    this.size = stage.kind.length;
    this.readers = Array.from({ length: this.size }, () => []);
    stage.inputs.forEach((inputs, node) => new Set(inputs).forEach((child) => this.readers[child].push(node)));
    this.depth = new Int32Array(this.size);
    for (let node = this.size - 1; node >= 0; node--)
      for (const child of stage.inputs[node]) this.depth[child] = Math.max(this.depth[child], this.depth[node] + 1);
  }

  kind(node: number): string {
    return this.stage.kinds[this.stage.kind[node]][0];
  }

  role(node: number): Role {
    return this.stage.kinds[this.stage.kind[node]][1];
  }

  get isFolded(): boolean {
    return this.stage.sizes !== undefined;
  }

  /** "Sum 70", or "64 × Categorical" for a group. */
  name(node: number): string {
    const sizes = this.stage.sizes;
    return sizes ? `${sizes[node]} × ${this.kind(node)}` : `${this.kind(node)} ${node}`;
  }

  /** The second line of a card: its units, of a group after its number; or what an equation defines. */
  note(node: number): string {
    const { units, equation } = this.stage;
    if (units) return `${this.isFolded ? `group ${node}, ` : ""}${units[node]} unit${units[node] === 1 ? "" : "s"}`;
    return equation ? this.record.texts[equation[node]].split(" = ")[0] : "";
  }

  variables(node: number): number[] {
    if (!this.stage.scope || !this.record.scopes) return [];
    return expand(this.record.scopes[this.stage.scope[node]]);
  }

  /** The groups that compute a node, each with the fold. */
  folds(node: number): [number, number][] {
    if (this.isFolded) return [];
    return pairs(this.stage.folds?.[node] ?? []);
  }

  /** The numbers of the groups that compute a node; of a group, its own. */
  groups(node: number): number[] {
    return this.isFolded ? [node] : [...new Set(this.folds(node).map(([group]) => group))];
  }

  /** The nodes that are computed in some groups. */
  members(groups: readonly number[]): number[] {
    if (!groups.length) return [];
    const wanted = new Set(groups);
    const nodes: number[] = [];
    for (let node = 0; node < this.size; node++) if (this.groups(node).some((group) => wanted.has(group))) nodes.push(node);
    return nodes;
  }

  /** The node that computes, or is computed with, a node of another stage; -1 where there is none. */
  counterpart(other: Graph, node: number): number {
    const places = other.isFolded ? [[node, 0]] : other.folds(node);
    if (!places.length) return -1;
    const [group, fold] = places[places.length - 1];
    if (this.isFolded) return group;
    let found = -1;
    for (let mine = 0; mine < this.size; mine++)
      if (this.folds(mine).some(([g, f]) => g === group && f === fold)) found = mine;
    return found;
  }
}

export function expand(runs: readonly number[]): number[] {
  const variables: number[] = [];
  for (let i = 0; i < runs.length; i += 2) for (let k = 0; k < runs[i + 1]; k++) variables.push(runs[i] + k);
  return variables;
}

function pairs(flat: readonly number[]): [number, number][] {
  const result: [number, number][] = [];
  for (let i = 0; i < flat.length; i += 2) result.push([flat[i], flat[i + 1]]);
  return result;
}

export function variableName(record: Explored, variable: number): string {
  const name = record.variables?.names?.[variable];
  return name?.trim() ? name : `x${variable}`;
}

const PREFIX = /^(kind|name|var|variable):(.*)$/s;

/** The words of a search, each with what it is searched in; the name of a variable is one word. */
function wordsOf(record: Explored, text: string): [string, string][] {
  const whole = text.toLowerCase().trim();
  const rest = /^var(iable)?:/.test(whole) ? whole.slice(whole.indexOf(":") + 1).trim() : whole;
  if (rest && record.variables?.names?.some((name) => name.toLowerCase().trim() === rest)) return [["var", rest]];
  const words = whole.split(/\s+/).filter(Boolean);
  return words.map((word) => (PREFIX.exec(word)?.slice(1) as [string, string] | undefined) ?? ["", word]);
}

/** Whether a node matches every word of a search: its name, kind, variables or parameters. */
export function matcher(graph: Graph, text: string): (node: number) => boolean {
  const { record, stage } = graph;
  const words = wordsOf(record, text);
  if (!words.length) return () => true;
  const inScope = new Map<string, boolean[]>();
  const scopesWith = (test: (variable: number) => boolean): boolean[] => (record.scopes ?? []).map((runs) => expand(runs).some(test));
  return (node) =>
    words.every(([prefix, rest]) => {
      const kind = () => graph.kind(node).toLowerCase().includes(rest);
      const name = () => {
        if (graph.name(node).toLowerCase().includes(rest)) return true;
        if (stage.equation && record.texts[stage.equation[node]].toLowerCase().includes(rest)) return true;
        return (stage.parameters?.[node] ?? []).some(([, , tensors]) =>
          tensors.some((tensor) => record.tensors?.[tensor].key.toLowerCase().startsWith(rest)),
        );
      };
      const variable = () => {
        if (!stage.scope) return false;
        const isPart = prefix === "" && record.variables?.names !== undefined;
        const isIt = (v: number) => {
          const variable = variableName(record, v).toLowerCase().trim();
          return isPart ? variable.includes(rest) : variable === rest;
        };
        if (!inScope.has(prefix + rest)) inScope.set(prefix + rest, scopesWith(isIt));
        return inScope.get(prefix + rest)![stage.scope[node]];
      };
      if (prefix === "kind") return kind();
      if (prefix === "var" || prefix === "variable") return variable();
      if (prefix === "name") return name();
      return kind() || name() || variable();
    });
}
