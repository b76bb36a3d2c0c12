/** The median and the quartiles of some numbers. */
export interface Spread {
  readonly median: number
  /** The first and the third quartile. */
  readonly low: number
  readonly high: number
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  return { median: quantile(sorted, 0.5), low: quantile(sorted, 0.25), high: quantile(sorted, 0.75) }
}

function quantile(sorted: readonly number[], share: number): number {
  if (sorted.length === 0) return Number.NaN
  const place = (sorted.length - 1) * share
  const below = sorted[Math.floor(place)] as number
  const above = sorted[Math.ceil(place)] as number
  return below + (above - below) * (place - Math.floor(place))
}
