// Reads the pages of the documentation.

/** The text below the heading `## title`, up to the next one. */
export function section(page: string, title: string): string {
  const start = page.indexOf(`\n## ${title}\n`)
  if (start < 0) throw new Error(`There is no heading «${title}»`)
  const end = page.indexOf('\n## ', start + 1)
  return page.slice(start, end < 0 ? undefined : end)
}

/** The fenced blocks in one language. */
export function blocks(page: string, language: string): string[] {
  return [...page.matchAll(/^```(\S*)\n([^]*?)^```$/gm)]
    .filter(([, its]) => its === language)
    .map(([, , text]) => text ?? '')
}
