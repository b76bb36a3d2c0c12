import 'reflect-metadata'
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import {
  All, Controller, Inject, Module, Req, Res, UseGuards, type CanActivate, type ExecutionContext,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { defineTask, router, type TaskEndpoints } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { LonghaulModule, TASK_ENDPOINTS, type NestContext } from 'longhaul/nestjs'
import { ndjsonUpload } from 'longhaul/ndjson'

const report = defineTask({
  name: 'report',
  run: ({ year }: { year: number }) => ({ message: `The report of ${year}` }),
})

class Guard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<FastifyRequest & { user?: { id: string } }>()
    const id = request.headers['x-user']
    if (typeof id === 'string') request.user = { id }
    return id !== undefined
  }
}

const written: unknown[] = []

@Controller()
@UseGuards(Guard)
class Tasks {
  private readonly handle: ReturnType<typeof toFastify>

  constructor(@Inject(TASK_ENDPOINTS) { submit, status }: TaskEndpoints<NestContext>) {
    this.handle = toFastify(router({
      'POST /api/reports': submit(report),
      'GET|HEAD|DELETE /api/tasks/{id}': status,
      'POST /api/orders': ndjsonUpload({ write: (records) => { written.push(...records) } }),
    }))
  }

  @All(['reports', 'tasks/:id', 'orders'])
  all(@Req() request: FastifyRequest, @Res() reply: FastifyReply): unknown {
    return this.handle(request, reply)
  }
}

@Module({
  imports: [LonghaulModule.forRootAsync({
    useFactory: () => ({
      tasks: { ...memory(), definitions: [report] },
      endpoints: { statusPath: '/api/tasks/{id}', owner: ({ context }) => context.user?.id },
    }),
  })],
  controllers: [Tasks],
})
class App {}

async function start(t: TestContext): Promise<string> {
  const app = await NestFactory.create<NestFastifyApplication>(App, new FastifyAdapter(), {
    logger: false,
    abortOnError: false,
  })
  t.after(() => app.close())
  app.setGlobalPrefix('api')
  app
    .getHttpAdapter()
    .getInstance()
    .addContentTypeParser(['application/x-ndjson'], (_request, _payload, done) => {
      done(null)
    })
  await app.listen(0, '127.0.0.1')
  return app.getUrl()
}

test('NestJS on Fastify runs a task for the user of a guard, in a controller with a router', async (t) => {
  const base = await start(t)
  const ann = { 'x-user': 'ann' }
  const body = { method: 'POST', body: '{"year":2025}' }
  const headers = { 'content-type': 'application/json', 'prefer': 'respond-async' }
  assert.equal((await fetch(`${base}/api/reports`, { ...body, headers })).status, 403)
  const accepted = await fetch(`${base}/api/reports`, { ...body, headers: { ...headers, ...ann } })
  assert.equal(accepted.status, 202)
  const url = new URL(accepted.headers.get('location') ?? '', base)
  const done = await fetch(url, { headers: { ...ann, prefer: 'wait=5' } })
  assert.deepEqual((await done.json() as { result: unknown }).result, { message: 'The report of 2025' })
  assert.equal((await fetch(url, { headers: { 'x-user': 'bob' } })).status, 404)
  const direct = await fetch(`${base}/api/reports`, {
    ...body,
    headers: { 'content-type': 'application/json', ...ann },
  })
  assert.deepEqual([direct.status, await direct.json()], [200, { message: 'The report of 2025' }])
})

test('NestJS on Fastify lets a handler read NDJSON itself, behind the guard', async (t) => {
  const base = await start(t)
  const upload = { method: 'POST', body: '{"id":1}\n{"id":2}\n' }
  const type = { 'content-type': 'application/x-ndjson' }
  assert.equal((await fetch(`${base}/api/orders`, { ...upload, headers: type })).status, 403)
  const response = await fetch(`${base}/api/orders`, { ...upload, headers: { ...type, 'x-user': 'ann' } })
  assert.equal(response.status, 200)
  assert.deepEqual(written, [{ id: 1 }, { id: 2 }])
})
