import type * as bullmq from 'bullmq'

/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

/**
 * Replaces load-bullmq.ts in the builds for Node: loads BullMQ, 217 files, at the first call.
 * An application that has a PostgreSQL store without a queue needs no BullMQ.
 */
export function loadBullMQ(): typeof bullmq {
  return nodeRequire('bullmq') as typeof bullmq
}
