import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, httpError, jsonSchema, type TaskDefinition } from 'longhaul'
import type { Users } from '../users/repository.js'
import { USER_ROLES, type User } from '../users/user.js'

const BATCH = 50
/** Simulated time of a database for one batch, in milliseconds. */
const BATCH_MS = 40

export interface ExportInput { readonly role?: string }
export interface ExportResult { readonly message: string, readonly count: number, readonly bytes: number, readonly sha256: string }

/** Writes the users into the file `users.ndjson`, batch by batch. The result has their number and the size of the file. */
export function exportUsers(users: Users): TaskDefinition<ExportInput, ExportResult> {
  return defineTask<ExportInput, ExportResult>({
    name: 'export-users',
    files: true,
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
    async run({ role }, { signal, progress, files }) {
      const wanted: User[] = []
      for await (const some of users.all(role)) wanted.push(...some)
      const lines = async function* () {
        for (let at = 0; at < wanted.length; at += BATCH) {
          await sleep(BATCH_MS, undefined, { signal })
          const batch = wanted.slice(at, at + BATCH)
          yield batch.map((user) => `${JSON.stringify(user)}\n`).join('')
          progress(at + batch.length, wanted.length)
        }
      }
      const { size, digest } = await files.write('users.ndjson', lines(), { type: 'application/x-ndjson' })
      return { message: `Exported ${wanted.length} users.`, count: wanted.length, bytes: size, sha256: hexOf(digest) }
    },
  })
}

/** Returns the SHA-256 of `sha-256=:…:` as hexadecimal digits. */
function hexOf(digest: string): string {
  return Buffer.from(digest.slice('sha-256=:'.length, -1), 'base64').toString('hex')
}
