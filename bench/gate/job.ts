/** One job that the gate counts, in a process of its own. */
export interface Job {
  /** Does the work `count` times. Returns once all of it, runs in the background included, has ended. */
  readonly run: (count: number) => Promise<void>
  /** Releases connections. */
  readonly close?: () => Promise<void>
}

/** Prepares a job: connects, fills the store, makes the bodies. */
export type PrepareJob = () => Promise<Job> | Job
