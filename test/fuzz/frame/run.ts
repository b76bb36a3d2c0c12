// The child of main.ts: tries the rules of all targets in turn, and says what it is about to do, so
// that a rule that never ends is known by name.
import { readdirSync } from 'node:fs'
import fc from 'fast-check'
import type { Rule, Target } from './rule.js'

/** What the parent orders. */
export interface Order {
  readonly seconds: number
  readonly seed: number
  readonly only: string
  readonly path: string | undefined
}

/** What the parent hears. */
export type Told =
  | { readonly begun: string; readonly seed: number }
  | { readonly failed: string; readonly seed: number; readonly path: string; readonly report: string }
  | { readonly done: Readonly<Record<string, number>> }

interface Named { readonly target: string; readonly name: string; readonly rule: Rule }

const SHORTEST_MS = 400
const LONGEST_MS = 3000

const folder = new URL('../', import.meta.url)
const tell = (told: Told): void => { process.send?.(told) }

async function run({ seconds, seed, only, path }: Order): Promise<void> {
  const files = readdirSync(folder).filter((file) => file.endsWith('.ts')).sort()
  const targets = new Map<string, Target>()
  for (const file of files) {
    const name = file.slice(0, -3)
    const target = await import(new URL(file, folder).href) as Target
    if (Object.keys(target.rules).some((rule) => `${name}: ${rule}`.startsWith(only))) targets.set(name, target)
  }
  const all: Named[] = [...targets].flatMap(([target, { rules }]) =>
    Object.entries(rules).map(([name, rule]) => ({ target, name: `${target}: ${name}`, rule: rule as Rule })),
  )
  const chosen = all.filter(({ name }) => name.startsWith(only))
  if (chosen.length === 0) throw new Error(`The name of no rule begins with ${JSON.stringify(only)}`)
  for (const { start } of targets.values()) await start?.()
  const runs: Record<string, number> = {}
  const end = Date.now() + seconds * 1000
  const slice = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, seconds * 1000 / chosen.length))
  try {
    for (let round = 0; round === 0 || Date.now() < end; round++) {
      for (const { name, rule } of chosen) {
        if (round > 0 && Date.now() >= end) break
        const own = path === undefined && chosen.length > 1 ? mixed(seed, name, round) : seed + round
        runs[name] = (runs[name] ?? 0) + await tried(name, rule, own, path, slice)
      }
      if (path !== undefined) break
    }
  } finally {
    for (const { stop } of targets.values()) await stop?.()
  }
  tell({ done: runs })
}

async function tried(name: string, rule: Rule, seed: number, path: string | undefined, slice: number): Promise<number> {
  tell({ begun: name, seed })
  const details = await fc.check(rule, {
    seed,
    numRuns: 1_000_000,
    interruptAfterTimeLimit: slice,
    markInterruptAsFailure: false,
    ...(path !== undefined && { path }),
    includeErrorInReport: true,
  })
  // On a busy machine the time may be over before the first input has been judged.
  if (!details.failed || (details.interrupted && details.counterexample === null)) return details.numRuns
  const { counterexample, errorInstance, counterexamplePath } = details
  const report = `${fc.stringify(counterexample)}\n${errorInstance instanceof Error ? (errorInstance.stack ?? errorInstance.message) : String(errorInstance)}`
  tell({ failed: name, seed, path: counterexamplePath ?? '', report })
  throw new Error('a rule is broken')
}

/** A seed for each rule in each round, so that one can be tried again without the others. */
function mixed(seed: number, name: string, round: number): number {
  let hash = seed ^ (round * 0x9e3779b1)
  for (const char of name) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193)
  return hash | 0
}

process.on('message', (order: Order) => {
  run(order).then(() => { process.disconnect() }, (error: unknown) => {
    if (!(error instanceof Error && error.message === 'a rule is broken')) console.error(error)
    process.exitCode = 1
    process.disconnect()
  })
})
