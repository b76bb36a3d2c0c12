import type { Panel } from './picture.js'

const RATIO = /^(\d+\.\d\d)(?: \(\d+\.\d\d–\d+\.\d\d\))?$/

/**
 * Reads the ratios in the tables of a report: a panel for each column of ratios, with a bar for each row. So a scenario writes
 * only the report. The title of a panel is the name of the scenario and that of the column.
 */
export function panelsIn(scenario: string, report: string): Panel[] {
  const panels: Panel[] = []
  const tables = report.split('\n\n').filter((part) => part.startsWith('|'))
  for (const table of tables) {
    const [head = [], , ...rows] = table.split('\n').filter((line) => line.startsWith('|')).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()))
    // One table may have several scenarios below each other.
    const kinds = head[1] === 'scenario' ? [...new Set(rows.map((row) => row[1] ?? ''))] : [undefined]
    for (const kind of kinds) head.forEach((column, at) => {
      if (at === 0 || /time|p99|^ms |^all accepts|^start /.test(column)) return
      const title = [column === 'ratio' ? '' : column, kind ?? ''].filter((part) => part !== '').join(', ')
      const bars = rows.filter((row) => kind === undefined || row[1] === kind).flatMap((row) => {
        const ratio = RATIO.exec(row[at] ?? '')?.[1]
        return ratio === undefined ? [] : [{ name: row[0] ?? '', ratio: Number(ratio) }]
      })
      if (bars.length > 1) panels.push({ title: [scenario, title].filter((part) => part !== '').join(': '), bars })
    })
  }
  return panels
}
