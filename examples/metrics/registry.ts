/** Labels that distinguish the series of a metric. */
export type Labels = Readonly<Record<string, string>>

/** Holds the metrics. `Counter` and `Histogram` have the methods of prom-client, which may replace them. */
export class Registry {
  private readonly metrics: (Counter | Histogram)[] = []

  add<M extends Counter | Histogram>(metric: M): M {
    this.metrics.push(metric)
    return metric
  }

  /** Returns all metrics in the text format of Prometheus. */
  text(): string {
    return this.metrics.flatMap(({ name, help, type, lines }) => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines()]).join('\n') + '\n'
  }
}

/** Counts up. */
export class Counter {
  readonly type = 'counter'
  private readonly counts = new Map<string, number>()

  constructor(readonly name: string, readonly help: string) {}

  inc(labels: Labels): void {
    const key = toText(labels)
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1)
  }

  readonly lines = (): string[] => [...this.counts].map(([labels, count]) => `${this.name}{${labels}} ${count}`)
}

/** Counts the values up to each bound. */
export class Histogram {
  readonly type = 'histogram'
  private readonly series = new Map<string, { readonly counts: number[]; sum: number; count: number }>()

  constructor(readonly name: string, readonly help: string, private readonly buckets: readonly number[]) {}

  observe(labels: Labels, value: number): void {
    const key = toText(labels)
    let seen = this.series.get(key)
    if (!seen) this.series.set(key, seen = { counts: this.buckets.map(() => 0), sum: 0, count: 0 })
    for (const [at, bound] of this.buckets.entries()) if (value <= bound) seen.counts[at] = (seen.counts[at] ?? 0) + 1
    seen.sum += value
    seen.count++
  }

  readonly lines = (): string[] => [...this.series].flatMap(([labels, { counts, sum, count }]) => [
    ...this.buckets.map((bound, at) => `${this.name}_bucket{${labels},le="${bound}"} ${counts[at] ?? 0}`),
    `${this.name}_bucket{${labels},le="+Inf"} ${count}`, `${this.name}_sum{${labels}} ${sum}`, `${this.name}_count{${labels}} ${count}`,
  ])
}

function toText(labels: Labels): string {
  return Object.entries(labels).map(([name, value]) => `${name}="${value.replaceAll(/["\\\n]/g, '_')}"`).join(',')
}
