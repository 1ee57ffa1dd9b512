// The record of a page, as src/plica/explore/schema.json describes it.

export interface Stage {
  name: string;
  kinds: [string, Role][];
  kind: number[];
  inputs: number[][];
  outputs: number[];
  // of circuits
  units?: number[];
  scope?: number[];
  settings?: number[];
  folds?: number[][];
  rules?: number[][];
  parameters?: [string, number, number[]][][];
  sizes?: number[];
  places?: [number, number][];
  // of Programs
  equation?: number[];
  source?: number[];
  kept?: (number | null)[];
  nested?: number[][];
  arguments?: string[];
}

export type Role = "input" | "sum" | "product" | "fused" | "equation";

export interface Tensor {
  key: string;
  shape: number[];
  learnable: boolean;
  range?: [number, number];
  mean?: number;
  deviation?: number;
  counts?: number[];
  sizes?: boolean;
}

export interface Group {
  equations: string[];
  code: string[];
  seconds: number | null;
}

/** A number; text for one that JSON lacks: "inf", "nan", or a complex one such as "1+0.5i". */
export type Entry = number | string | null;

export interface Row {
  x: Entry[];
  cells?: string[];
  values: (Entry[] | null)[];
  units?: number[];
  completed?: Entry[];
  note?: string;
}

export interface Explored {
  format: "plica-explorer";
  version: number;
  title: string;
  subject: "circuit" | "program";
  text: string;
  texts: string[];
  stages: Stage[];
  scopes?: number[][];
  tensors?: Tensor[];
  groups?: Group[];
  seconds?: Record<string, number>;
  logarithmic?: boolean;
  variables?: { count: number; names?: string[]; image?: [number, number, number] };
  rows?: Row[];
  rows_note?: string;
}

export const VERSION = 1;
