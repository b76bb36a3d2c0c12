// What somebody gets who pastes the code of a page into files, block after block.
import assert from 'node:assert/strict'

/** The text of each file by its name. */
export type Files = ReadonlyMap<string, string>

/**
 * Returns the files after each block of a page that can be pasted. A `ts` or `js` block that begins
 * with `// name.ts` is
 * a whole file. A `diff` block changes one of the files before.
 */
export function pasted(page: string): Files[] {
  const states: Files[] = []
  for (const [, language, text = ''] of page.matchAll(/^```(ts|js|diff)\n([^]*?)^```$/gm)) {
    const files = new Map(states.at(-1))
    const [, name] = /^\/\/ (\S+\.[cm]?[jt]s)\n/.exec(text) ?? []
    if (language === 'diff') {
      const [changed, before] = fileOf(text, files)
      files.set(changed, apply(text, before))
    } else if (name !== undefined) {
      assert.ok(!files.has(name), `${name} is shown twice; show its change as a diff`)
      files.set(name, text)
    } else {
      continue
    }
    states.push(files)
  }
  return states
}

/** Returns the one file that has all lines that a diff removes. */
function fileOf(diff: string, files: Files): readonly [string, string] {
  const removed = diff.split('\n').filter((line) => line.startsWith('-')).map((line) => line.slice(1))
  const fitting = [...files].filter(([, text]) => removed.every((line) => text.split('\n').includes(line)))
  const [found] = fitting
  assert.ok(found !== undefined && fitting.length === 1, `${fitting.length} files have the removed lines of\n${diff}`)
  return found
}

/** Applies a diff. Its lines stand in the order of the file; lines between them may be left out. */
function apply(diff: string, text: string): string {
  const lines = text.split('\n')
  let at = 0
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const content = line.slice(1)
    if (line.startsWith('+')) {
      lines.splice(at++, 0, content)
      continue
    }
    const found = lines.indexOf(content, at)
    assert.ok(found >= 0, `the file has no line «${content}», or not in this order`)
    if (line.startsWith('-')) lines.splice(found, 1)
    at = line.startsWith('-') ? found : found + 1
  }
  return lines.join('\n')
}
