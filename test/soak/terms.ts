/** What the load, the processes and the checks agree on. */
export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
/** Attempts of each task. */
export const ATTEMPTS = 2
/** Default of `maxCrashes`: number of runs in a row that may end with their worker. */
export const MAX_CRASHES = 3
/** docs/guarantees.md: each attempt may be made, and lose its worker that often. */
export const MOST_RUNS = ATTEMPTS * MAX_CRASHES

/**
 * Kinds of work. `work`: without limits. `limited` and `unique`: in a pool with limits of what runs.
 * `fair`: in a pool with few places, whose owners take turns.
 */
export type WorkName = 'work' | 'limited' | 'unique' | 'fair'

/** Limits of the pool `limited`, over all processes. */
export const LIMITS = {
  maxRunning: 8, maxRunningPerOwner: 3, startsPer: { count: 8, ms: 1000 },
} as const
/** `maxRunningPerOwner` of the definition `limited`, in addition to that of its pool. */
export const LIMITED_PER_OWNER = 2
/** Owners of tasks in the pool `limited`. The first one has most of the tasks. */
export const LIMITED_OWNERS: readonly string[] = [0, 1, 2, 3, 4, 5].map((n) => `lim-${String(n)}`)

/** Worker processes of a site whose tasks are shared. */
export const WORKERS = 2
/** Places of the pool `fair` in each worker. */
export const FAIR_PLACES = 3

/** Time that a run has without a renewal, in milliseconds. */
export const LEASE_MS = 4000

/** Number of owners of `work`. So many that none has 100 unfinished tasks after a failure (429). */
const OWNERS = 40

/** Returns the owner of a submission of `work`. */
export const ownerOf = (n: number): string => `owner-${String(n % OWNERS)}`

/** `ok` completes, `fails` always fails, `flaky` fails the first time. */
export type Mode = 'ok' | 'fails' | 'flaky'

export interface WorkInput {
  /** Names the submission. */
  readonly n: number
  readonly ms: number
  readonly mode: Mode
}

/** How a process is, after a collection of garbage. */
export interface Vitals {
  readonly rss: number
  readonly heapUsed: number
  readonly descriptors: number
  readonly resources: Readonly<Record<string, number>>
  readonly delayMs: { readonly p50: number, readonly p99: number, readonly max: number }
}
