import assert from 'node:assert/strict'
import type { TaskEngine } from '../../../src/engine/engine.js'

/** Expects that the list of an owner has each of these tasks, and no task twice. */
export async function expectListed(engine: TaskEngine, owner: string, ids: readonly string[]): Promise<void> {
  const listed: string[] = []
  for (let after: { id: string, createdAt: number } | undefined; ;) {
    const page = await engine.list({ of: { owner }, order: 'oldest', limit: 1000, after })
    listed.push(...page.map(({ id }) => id))
    if (page.length < 1000) break
    after = page.at(-1)
  }
  assert.equal(new Set(listed).size, listed.length, 'a task is listed twice')
  for (const id of ids) assert.ok(listed.includes(id), `${id} is not in the list of ${owner}`)
}
