/** Sections whose tables promise something of their own in each row. */
const ROW_BY_ROW = new Set(['4.1', '7', '9'])
/** Sections that only list what is not shown. */
const GAPS = new Set(['2.10'])

/**
 * The ids of all clauses in the text of docs/SPEC.md, in its order: each third-level section, each
 * numbered rule, `poll` where a section has a second operation, and each row of a ROW_BY_ROW table.
 */
export function clauseIds(markdown: string): string[] {
  const ids: string[] = []
  let section = ''
  let list = ''
  let rows = 0
  for (const line of markdown.split('\n')) {
    const heading = /^#{2,3} (\d+(?:\.\d+)?)\.? /.exec(line)
    if (heading?.[1] !== undefined) {
      section = heading[1]
      list = ''
      if (section.includes('.') && !ROW_BY_ROW.has(section) && !GAPS.has(section)) ids.push(section)
    }
    if (/^Format rules:/.test(line)) list = '.format'
    if (/^Rules for upload:/.test(line)) list = '.upload'
    if (/^\*\*Poll:\*\*/.test(line)) ids.push(`${section}.poll`)

    const rule = /^(\d+)\. /.exec(line)
    if (rule?.[1] !== undefined) ids.push(`${section}${list}.${rule[1]}`)

    rows = line.startsWith('|') ? rows + 1 : 0
    // The first two lines of a table are its head.
    if (rows > 2 && ROW_BY_ROW.has(section)) ids.push(`${section}.${rowName(line)}`)
  }
  return ids
}

function rowName(line: string): string {
  const cell = line.split('|')[1]?.trim() ?? ''
  return /^[A-Z]+$/.test(cell) ? cell : cell.toLowerCase().replaceAll(' ', '-')
}
