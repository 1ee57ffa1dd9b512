// elkjs in a worker made of the page itself: its text lies compressed in a script element, so that no host is asked.

import ELK from "elkjs/lib/elk-api";
import type { Elk } from "./layout";

/** Lays out graphs by elkjs; null where the page has none, as in notebooks. */
export async function loadElk(element: HTMLScriptElement | null): Promise<Elk | null> {
  const packed = element?.textContent?.trim();
  if (!packed || typeof Worker === "undefined") return null;
  try {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const text = await new Response(unpacked).text();
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    const elk = new ELK({ workerFactory: () => new Worker(address) });
    return (graph) => elk.layout(graph);
  } catch (error) {
    console.warn("elkjs cannot run here; layers stand in plain rows.", error);
    return null;
  }
}
