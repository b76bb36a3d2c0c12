import type { Redis } from 'ioredis'
import { defineTask, jsonSchema } from 'longhaul'

/** Which process. */
export type Who = 'old' | 'new' | 'shop' | 'blog'

export const namespaceOf = (who: Who): string => (who === 'old' || who === 'new' ? 'versions' : who)

/** What a process knows. Each run writes down who ran it. */
export function definitionsOf(who: Who, redis: Redis) {
  const properties = { year: { type: 'integer' }, ...who === 'old' ? {} : { currency: { type: 'string' } } }
  const run = async (_: unknown, { taskId }: { taskId: string | undefined }) => {
    await redis.rpush(`ran:${String(taskId)}`, who)
    return { message: `by ${who}` }
  }
  const report = defineTask({
    name: 'report',
    input: jsonSchema({ type: 'object', properties, additionalProperties: false }),
    run,
  })
  const audit = defineTask({ name: 'audit', run })
  return who === 'old' ? [report] : [report, audit]
}
