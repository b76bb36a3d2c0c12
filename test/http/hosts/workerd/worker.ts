// A Worker of a user's, run by workerd. What compiles code is made while the module is loaded.
import { authenticate, bearer, rateLimit, requestId, tokens } from 'longhaul/policies'
import { bulkCreate } from 'longhaul/bulk'
import {
  compose, createTasks, defineTask, jsonSchema, router, taskEndpoints, type Handler,
} from 'longhaul'
import { content, blobSource } from 'longhaul/content'
import { ndjsonDownload, ndjsonUpload } from 'longhaul/ndjson'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { z } from 'zod'

const engine = memory()
const errors: string[] = []

const double = defineTask({
  name: 'double',
  input: z.object({ amount: z.number() }),
  run: async ({ amount }, { progress }) => {
    progress(1, 2)
    await new Promise((resolve) => setTimeout(resolve, 300))
    return { amount: amount * 2 }
  }
})
const tasks = createTasks({ ...engine, definitions: [double], onError: (error) => { errors.push(String(error)) } })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'me' })

const user = z.object({ name: z.string() })
const users: { name: string }[] = []
const item = jsonSchema<{ name: string, age: number }>({
  type: 'object', required: ['name', 'age'], properties: { name: { type: 'string' }, age: { type: 'integer' } }
})
const create = async (each: { name: string }) => {
  users.push(each)
  return { ...each, id: String(users.length) }
}

const late: Handler = () => {
  jsonSchema({ type: 'object' })
  return undefined
}

const handle = toFetch(
  compose(
    requestId(),
    router({
      'POST /double': submit(double),
      'GET|HEAD|DELETE /tasks/{id}': status,
      'POST /users': bulkCreate({ schema: user, repository: { create } }),
      'POST /checked': bulkCreate({ schema: item, repository: { create } }),
      'POST /lines': ndjsonUpload<{ name: string }>({
        schema: user,
        write: (records) => {
          users.push(...records)
        },
      }),
      'GET /lines': ndjsonDownload<{ name: string }>({ records: () => users, schema: user }),
      'GET|HEAD /blob': content(() => blobSource(engine.blobs, 'digits')),
      'GET /mine': compose(
        authenticate({ schemes: [bearer({ verify: tokens({ 'only-for-trying': { subject: 'me' } }) })] }),
        rateLimit({
          store: engine.store,
          onStoreError: 'deny',
          policies: [{ name: 'few', limit: 2, windowSeconds: 60 }],
        }),
        () => ({ status: 204, headers: {} }),
      ),
      'GET /late': late,
      'GET /late-lines': (request) =>
        ndjsonDownload({ records: () => [{ name: 'dan', secret: 's' }], schema: user })(request),
    }),
  ),
  {
    onError: (error) => {
      errors.push(String(error))
    },
  },
)

export const worker = {
  async fetch(
    request: Request,
    _env: unknown,
    context: { waitUntil(promise: Promise<unknown>): void },
  ): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (pathname === '/errors') return Response.json(errors.splice(0))
    if (pathname === '/put') {
      const body = (async function* () {
        yield new TextEncoder().encode('0123456789')
      })()
      await engine.blobs.put('digits', body, { ttlMs: 60_000 })
    }
    const response = await handle(request)
    context.waitUntil(engine.engine.idle())
    return response
  },
}
