import type * as bullmq from 'bullmq'

/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

/**
 * Replaces load-bullmq.ts in the builds for Node: loads BullMQ, 217 files, at the first call.
 * An application that has a PostgreSQL store without a queue needs no BullMQ.
 *
 * @throws {Error} BullMQ is not installed. The message says how to install it.
 */
export function loadBullMQ(): typeof bullmq {
  try {
    return nodeRequire('bullmq') as typeof bullmq
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // A package that BullMQ itself needs may be the one that is missing.
    if (code !== 'MODULE_NOT_FOUND' || !message.includes('\'bullmq\'')) throw error
    const queues = 'Queues of longhaul/postgres and longhaul/bullmq'
    throw new Error(`${queues} need bullmq: npm install bullmq@6`)
  }
}
