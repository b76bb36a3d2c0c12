import type { TaskEngine, Transaction } from '../../engine/engine.js'

/** Settings that a case needs of its engines. */
export interface EngineSettings {
  /** Lease of a run, in milliseconds. */
  readonly leaseMs: number
  /** Share of the final tasks of one caller. Default: the default of the engine. */
  readonly share?: { readonly tasks: number, readonly bytes: number } | undefined
  /**
   * Maximum number of tasks. Only set if the option `isBounded` of the suite is. Default: the
   * default of the engine.
   */
  readonly capacity?: number
}

/** Processes on the same tasks, for one case. There are no tasks at first. */
export interface EngineFixture {
  /** Starts a process. Called once if the engine is not shared. */
  open(): Promise<EngineProcess>
  /** Ends all processes, killed and frozen ones included, and deletes what they left. */
  close(): Promise<void> | void
  /** Begins a transaction of the application. Needed for the option `hasTransactions`. */
  begin?(): Promise<OpenTransaction>
}

/**
 * A process with one engine. In a test it is usually not a process of the operating system, but a
 * connection of its own.
 */
export interface EngineProcess {
  readonly engine: TaskEngine
  /**
   * Cuts the process off, as a network that loses all packets: it sends nothing and receives
   * nothing, not even the responses to what it sent, so it renews no lease. Its timers run. Absent if
   * the engine is not shared.
   */
  freeze?(): Promise<void> | void
  /** Ends `freeze`. What waited is sent and received, unless the process gave it up. */
  thaw?(): Promise<void> | void
  /**
   * Ends the process at once, as `kill -9`: its connections are cut, nothing is drained, and calls
   * reject from now on. Absent if the engine is not shared.
   */
  kill?(): Promise<void> | void
}

/** A transaction of the application that is open. */
export interface OpenTransaction {
  readonly transaction: Transaction
  /** Commits the transaction. */
  commit(): Promise<void>
  /** Rolls the transaction back. */
  rollback(): Promise<void>
}

/** Options of `engineConformance`. */
export interface EngineConformanceOptions {
  /** Title of the suite. Default: `TaskEngine conformance`. */
  readonly title?: string
  /**
   * `true` if several processes see the same tasks: registers cases with several processes.
   * Default `true`.
   */
  readonly isShared?: boolean
  /** `true` if the engine obeys the setting `capacity`. Default `false`. */
  readonly isBounded?: boolean
  /** `true` if the fixture has `begin`. Default `false`. */
  readonly hasTransactions?: boolean
  /**
   * `true` if the engine calls `remove` again within `timeoutMs` after a failure. Default `false`.
   */
  readonly removesAgainSoon?: boolean
  /** Lease in cases that wait for the end of a lease, in milliseconds. Default 400. */
  readonly leaseMs?: number
  /** Tolerance of delays, in milliseconds. Default 50. */
  readonly toleranceMs?: number
  /** Time limit for each expected event, in milliseconds. Default 5000. */
  readonly timeoutMs?: number
  /**
   * Maximum number of cases that run at the same time, each with a fixture of its own. Default 4.
   */
  readonly concurrency?: number
}
