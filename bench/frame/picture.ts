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

/** One measure at several sizes, a line for each subject. */
export interface Chart {
  readonly title: string
  readonly lines: readonly { readonly name: string, readonly points: readonly (readonly [size: number, value: number])[] }[]
}

const CHART = { width: 340, height: 190, left: 58 }
const COLOURS = ['#2f6fde', '#d9534f', '#3c9a5f', '#8a6d3b']

/** Returns charts as an SVG, two in a row. Both axes are logarithmic. */
export function lines(heading: string, charts: readonly Chart[]): string {
  const { width, height, left } = CHART
  const rows = Math.ceil(charts.length / 2)
  const parts = charts.map(({ title, lines: all }, at) => {
    const [x0, y0] = [(at % 2) * (width + 60), 50 + Math.floor(at / 2) * (height + 70)]
    const points = all.flatMap((line) => line.points)
    const scale = (of: 0 | 1): [low: number, high: number] => {
      const logs = points.map((point) => Math.log10(point[of]))
      return [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs))]
    }
    const [[lowX, highX], [lowY, highY]] = [scale(0), scale(1)]
    const x = (size: number): string => (x0 + left + (Math.log10(size) - lowX) / (highX - lowX) * (width - left)).toFixed(1)
    const y = (value: number): string => (y0 + height - (Math.log10(value) - lowY) / (highY - lowY) * height).toFixed(1)
    const powers = (low: number, high: number): number[] => Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n))
    return [
      `<text x="${x0}" y="${y0 - 12}" font-weight="bold">${escaped(title)}</text>`,
      ...powers(lowY, highY).map((value) => `<line x1="${x0 + left}" x2="${x0 + width}" y1="${y(value)}" y2="${y(value)}" stroke="#8a94a3" stroke-width="0.5"/><text x="${x0 + left - 6}" y="${Number(y(value)) + 4}" text-anchor="end">${value.toLocaleString('en')}</text>`),
      ...powers(lowX, highX).map((size) => `<text x="${x(size)}" y="${y0 + height + 18}" text-anchor="middle">${size.toLocaleString('en')}</text>`),
      ...all.map(({ points: own }, n) => `<polyline fill="none" stroke="${COLOURS[n % COLOURS.length] ?? ''}" stroke-width="2" points="${own.map(([size, value]) => `${x(size)},${y(value)}`).join(' ')}"/>`),
    ].join('\n')
  })
  const names = charts[0]?.lines.map(({ name }, n) => `<tspan fill="${COLOURS[n % COLOURS.length] ?? ''}" font-weight="bold"> ${escaped(name)}</tspan>`).join('') ?? ''
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * width + 110} ${50 + rows * (height + 70)}" role="img" font-family="system-ui, sans-serif" font-size="12">
<title>${escaped(heading)}</title>
<style>text { fill: #1f2328 } @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }</style>
<text x="0" y="20" font-size="15">${escaped(heading)}:${names}</text>
${parts.join('\n')}
</svg>
`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
