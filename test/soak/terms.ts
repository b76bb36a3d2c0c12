/** What the load and the processes agree on. */
export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
/** Of each task. */
export const ATTEMPTS = 2
/** Default of `maxCrashes`: number of runs in a row that may end with their worker. */
export const MAX_CRASHES = 3
/** docs/guarantees.md: each attempt may be made, and lose its worker that often. */
export const MOST_RUNS = ATTEMPTS * MAX_CRASHES

/** Number of owners. So many that none has 100 unfinished tasks after a failure, which would be a 429. */
const OWNERS = 40

/** Header that names the owner of a submission. */
export const ownerOf = (n: number): { readonly 'x-owner': string } => ({ 'x-owner': `owner-${String(n % OWNERS)}` })

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
