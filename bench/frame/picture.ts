/** One bar: the ratio of a subject. The limit of its scenario is 1. */
export interface Bar {
  readonly name: string
  readonly ratio: number
}

/** One scenario with its bars, the limit first. */
export interface Panel {
  readonly title: string
  readonly bars: readonly Bar[]
}

const WIDTH = 760
const LABEL = 250
const LONGEST_NAME = 32
const ROW = 20
const TITLE = 34

/** Returns true if a row is a figure of longhaul. */
export function isOwn(name: string): boolean {
  return /^(?:longhaul|in-fastify|LineReader|readRecords|readElements)/.test(name)
}

/** Returns bars of CPU ratios as an SVG, in colours that are readable on light and on dark pages. */
export function picture(heading: string, panels: readonly Panel[]): string {
  const most = Math.max(1, ...panels.flatMap(({ bars }) => bars.map(({ ratio }) => ratio)))
  const unit = (WIDTH - LABEL - 70) / most
  let y = 40
  const parts: string[] = []
  for (const { title, bars } of panels) {
    y += TITLE
    parts.push(`<text x="0" y="${y - 10}" font-weight="bold">${escaped(title)}</text>`)
    for (const { name, ratio } of bars) {
      const own = isOwn(name)
      const label = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name
      parts.push(
        `<text x="${LABEL - 8}" y="${y + 14}" text-anchor="end"${own ? ' font-weight="bold"' : ''}>${escaped(label)}</text>`,
        `<rect x="${LABEL}" y="${y + 3}" width="${(ratio * unit).toFixed(1)}" height="${ROW - 6}" rx="2" fill="${own ? '#2f6fde' : '#8a94a3'}"/>`,
        `<text x="${(LABEL + ratio * unit + 6).toFixed(1)}" y="${y + 14}">${ratio.toFixed(2)}</text>`,
      )
      y += ROW
    }
  }
  const line = (LABEL + unit).toFixed(1)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 20}" role="img" font-family="system-ui, sans-serif" font-size="13">
<title>${escaped(heading)}</title>
<style>text { fill: #1f2328 } @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }</style>
<text x="0" y="20" font-size="15">${escaped(heading)}</text>
<line x1="${line}" y1="34" x2="${line}" y2="${y}" stroke="#8a94a3" stroke-dasharray="3 3"/>
${parts.join('\n')}
</svg>
`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
