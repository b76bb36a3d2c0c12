import type * as bullmq from 'bullmq'

/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

/** Replaces load-bullmq.ts in the builds for Node: loads BullMQ, 217 files, at the first task. */
export function loadBullMQ(): typeof bullmq {
  try {
    return nodeRequire('bullmq') as typeof bullmq
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // A package that BullMQ itself needs may be missing.
    if (code !== 'MODULE_NOT_FOUND' || !message.includes('\'bullmq\'')) throw error
    throw new Error('The task engine of longhaul/redis needs bullmq: npm install bullmq@6')
  }
}
