import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, httpError, jsonSchema, type TaskDefinition } from 'longhaul'
import type { Users } from '../users/repository.js'
import { USER_ROLES, type User } from '../users/user.js'

const BATCH = 50
/** Simulated time of a database for one batch, in milliseconds. */
const BATCH_MS = 40

export interface ExportInput { readonly role?: string }
export interface ExportResult { readonly message: string, readonly count: number, readonly bytes: number, readonly sha256: string }

/** Writes the users as NDJSON, batch by batch. The result has their number and the size. */
export function exportUsers(users: Users): TaskDefinition<ExportInput, ExportResult> {
  return defineTask<ExportInput, ExportResult>({
    name: 'export-users',
    input: jsonSchema<ExportInput>({
      type: 'object', additionalProperties: false,
      properties: { role: { type: 'string', description: 'Only users with this role' } },
    }),
    // Well formed, but there is no such role: 422, before the 202.
    check({ role }) {
      if (role === undefined || USER_ROLES.some((known) => known === role)) return
      throw httpError('unprocessable', {
        message: 'There is no user with this role.',
        details: [{ pointer: '/role', message: `must be one of ${USER_ROLES.join(', ')}` }],
      })
    },
    async run({ role }, { signal, progress }) {
      const wanted: User[] = []
      for await (const some of users.all(role)) wanted.push(...some)
      const hash = createHash('sha256')
      let bytes = 0
      for (let at = 0; at < wanted.length; at += BATCH) {
        await sleep(BATCH_MS, undefined, { signal })
        const batch = wanted.slice(at, at + BATCH)
        const lines = batch.map((user) => `${JSON.stringify(user)}\n`).join('')
        hash.update(lines)
        bytes += Buffer.byteLength(lines)
        progress(at + batch.length, wanted.length)
      }
      return { message: `Exported ${wanted.length} users.`, count: wanted.length, bytes, sha256: hash.digest('hex') }
    },
  })
}
