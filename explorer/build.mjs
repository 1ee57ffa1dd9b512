// Bundles the explorer into src/plica/explore/static, with the hash of its sources in the first line.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "src", "plica", "explore", "static");
const BUNDLED = ["d3-color", "d3-dispatch", "d3-drag", "d3-ease", "d3-interpolate", "d3-selection", "d3-timer", "d3-transition", "d3-zoom"];

function hashOfSources() {
  const names = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json", ...readdirSync(join(here, "src")).map((name) => `src/${name}`)];
  const hash = createHash("sha256");
  for (const name of names.sort()) hash.update(`${name}\n`).update(readFileSync(join(here, name)));
  return hash.digest("hex");
}

const text = (name, file) => readFileSync(join(here, "node_modules", name, file), "utf8").trim();
const about = (name) => JSON.parse(text(name, "package.json"));

const licences = new Map();
for (const name of BUNDLED) {
  const licence = text(name, "LICENSE");
  licences.set(licence, [...(licences.get(licence) ?? []), `${name} ${about(name).version} (${about(name).license})`]);
}
const elk = `elkjs ${about("elkjs").version} (Eclipse Public License 2.0; its source is the npm package elkjs ${about("elkjs").version})`;
const notices = [...licences].map(([licence, names]) => `${names.join(", ")}\n\n${licence}`);
const head = `Plica's explorer, built from the folder explorer by "make explorer"; sources ${hashOfSources()}`;

mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { explorer: "src/main.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  banner: {
    css: `/* ${head} */`,
    js: `/* ${head}\n\nIt contains these packages; beside it stands ${elk}.\n\n${notices.join("\n\n")} */`,
  },
  logLevel: "warning",
});
copyFileSync(join(here, "node_modules", "elkjs", "lib", "elk-worker.min.js"), join(out, "elk-worker.min.js"));
const all = [...notices, `${elk}\n\n${text("elkjs", "LICENSE.md")}`].join(`\n\n${"-".repeat(80)}\n\n`);
writeFileSync(join(out, "LICENSES.txt"), `The explorer's page contains these packages.\n\n${all}\n`);
