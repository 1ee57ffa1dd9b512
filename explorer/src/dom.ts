// Elements in one line each, and texts that are cut.

type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean | (() => void)> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** A text of at most so many letters. */
export function clipped(text: string, letters: number): string {
  const all = text.length > 2 * letters ? text.slice(0, 2 * letters) : text;
  return [...all].length > letters ? `${[...all].slice(0, letters - 1).join("")}…` : text;
}
