/** One bar: the ratio of a subject. */
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
const LABEL = 330
const ROW = 22

/** Returns bars with a line at 1 as an SVG, in colours that are readable on light and on dark pages. */
export function picture(heading: string, note: string, bars: readonly Bar[]): string {
  const most = Math.max(1, ...bars.map(({ ratio }) => ratio))
  const unit = (WIDTH - LABEL - 50) / most
  const [top, height] = [54, 54 + bars.length * ROW]
  const line = (LABEL + unit).toFixed(1)
  const parts = bars.flatMap(({ name, ratio }, at) => {
    const y = top + at * ROW
    return [
      `<text x="${LABEL - 8}" y="${y + 15}" text-anchor="end">${escaped(name)}</text>`,
      `<rect x="${LABEL}" y="${y + 3}" width="${(ratio * unit).toFixed(1)}" height="${ROW - 7}" rx="2" fill="${ratio < 1 ? '#d9534f' : '#2f6fde'}"/>`,
      `<text x="${(LABEL + ratio * unit + 6).toFixed(1)}" y="${y + 15}">${ratio.toFixed(2)}</text>`,
    ]
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height + 10}" role="img" font-family="system-ui, sans-serif" font-size="13">
<title>${escaped(heading)}</title>
<style>text { fill: #1f2328 } @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }</style>
<text x="0" y="18" font-size="15">${escaped(heading)}</text>
<text x="0" y="38" font-size="12">${escaped(note)}</text>
${parts.join('\n')}
<line x1="${line}" y1="${top - 4}" x2="${line}" y2="${height + 4}" stroke="#8a94a3" stroke-dasharray="3 3"/>
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
