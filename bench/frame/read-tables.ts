import type { Panel } from './picture.js'

const RATIO = /^(\d+\.\d\d)(?: \(\d+\.\d\d–\d+\.\d\d\))?$/

/**
 * The ratios in the tables of a report: a panel for each column that has them, with a bar for each row. So a scenario needs to write
 * nothing but what people read.
 */
export function panelsIn(scenario: string, report: string): Panel[] {
  const panels: Panel[] = []
  const tables = report.split('\n\n').filter((part) => part.startsWith('|'))
  for (const table of tables) {
    const [head = [], , ...rows] = table.split('\n').filter((line) => line.startsWith('|')).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()))
    head.forEach((title, column) => {
      if (column === 0 || /time|p99/.test(title)) return
      const bars = rows.flatMap((row) => {
        const ratio = RATIO.exec(row[column] ?? '')?.[1]
        return ratio === undefined ? [] : [{ name: row[0] ?? '', ratio: Number(ratio) }]
      })
      if (bars.length > 1 && bars.some(({ name }) => name.includes('longhaul'))) panels.push({ title: [scenario, title === 'ratio' ? '' : title].filter((part) => part !== '').join(': '), bars })
    })
  }
  return panels
}
