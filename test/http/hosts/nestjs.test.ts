import 'reflect-metadata'
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, test } from 'node:test'
import {
  All, Controller, Inject, Injectable, Module, Next, Post, Req, Res, Scope, type DynamicModule,
  type INestApplication,
} from '@nestjs/common'
import { ModuleRef, NestFactory } from '@nestjs/core'
import { defineTask, type TaskEndpoints, type Tasks } from 'longhaul'
import { memory } from 'longhaul/memory'
import { LonghaulModule, TASK_ENDPOINTS, TASKS, type NestContext } from 'longhaul/nestjs'
import { toNode, type NodeHandler } from 'longhaul/node'

interface Member { readonly memberId: string }

const events = new EventEmitter()
const aborted: string[] = []
const report = defineTask({
  name: 'report',
  run: ({ ms }: { ms: number }, { signal }) => new Promise<{ message: string }>((resolve, reject) => {
    events.emit('run')
    const timer = setTimeout(resolve, ms, { message: 'done' })
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      aborted.push('report')
      reject(signal.reason as Error)
    })
  }),
})

@Controller()
class Reports {
  private readonly create: NodeHandler<NestContext<Member>>
  private readonly show: NodeHandler<NestContext<Member>>

  constructor(@Inject(TASK_ENDPOINTS) { submit, status }: TaskEndpoints<NestContext<Member>>) {
    this.create = toNode(submit(report))
    this.show = toNode(status)
  }

  @Post('reports')
  submit(@Req() req: IncomingMessage & { user?: unknown }, @Res() res: ServerResponse, @Next() next: () => void): void {
    // Stands for a guard.
    req.user = { memberId: req.headers['x-member'] }
    this.create(req, res, next)
  }

  @All('tasks/:id')
  status(@Req() req: IncomingMessage & { user?: unknown }, @Res() res: ServerResponse, @Next() next: () => void): void {
    req.user = { memberId: req.headers['x-member'] }
    this.show(req, res, next)
  }
}

@Injectable()
class Settings {
  readonly drainMs = 20
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

@Injectable()
class Billing {
  constructor(@Inject(TASKS) readonly tasks: Tasks) {}
}

const endpoints = {
  statusPath: '/tasks/{id}',
  owner: ({ context }: { context: NestContext<Member> }) => context.user?.memberId,
}

async function app(
  module: DynamicModule,
  parts: { controllers?: [typeof Reports]; providers?: [typeof Billing] },
): Promise<INestApplication> {
  @Module({ imports: [module], ...parts })
  class App {}
  const created = await NestFactory.create(App, { logger: false, abortOnError: false })
  await created.listen(0, '127.0.0.1')
  return created
}

describe('LonghaulModule', () => {
  test('forRoot provides the endpoints, and the user of the guard is the owner', async () => {
    const nest = await app(
      LonghaulModule.forRoot<Member>({ tasks: { ...memory(), definitions: [report] }, endpoints }),
      { controllers: [Reports] },
    )
    const base = await nest.getUrl()
    const created = await fetch(`${base}/reports`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'prefer': 'respond-async', 'x-member': 'ann' },
      body: '{"ms":0}',
    })
    assert.equal(created.status, 202)
    const url = base + (created.headers.get('location') ?? '')
    assert.equal(
      (
        (await fetch(url, { headers: { 'x-member': 'ann', 'prefer': 'wait=5' } }).then((response) =>
          response.json(),
        )) as { status: string }
      ).status,
      'completed',
    )
    assert.equal((await fetch(url, { headers: { 'x-member': 'bob' } })).status, 404)
    await nest.close()
  })

  test('forRootAsync injects other providers, and close() gives runs drainMs', async () => {
    const module = LonghaulModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: async ({ drainMs }: Settings) => ({ tasks: { ...memory(), definitions: [report] }, drainMs }),
    })
    const nest = await app(module, { providers: [Billing] })
    const { tasks } = nest.get(Billing)
    assert.equal(nest.get(TASKS), tasks)
    const run = once(events, 'run')
    await tasks.submit(report, { ms: 60_000 })
    await run
    await nest.close()
    assert.deepEqual(aborted, ['report'])
    await assert.rejects(tasks.submit(report, { ms: 0 }), { code: 'shutting_down' })
  })

  test('a wrong option fails when the application is created, and the error names it', async () => {
    const options = { tasks: { ...memory(), definitions: [report] }, drainMS: 5 }
    await assert.rejects(
      app(LonghaulModule.forRoot(options), {}),
      /LonghaulModule: there is no option "drainMS"; did you mean "drainMs"\?/,
    )
    await assert.rejects(app(LonghaulModule.forRoot({} as never), {}), /LonghaulModule: the option tasks is missing/)
  })

  test('a request-scoped provider that the factory needs fails at the start, because each request would create its own tasks', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Tenant {}
    @Injectable()
    class ReportTask {
      constructor(@Inject(Tenant) readonly tenant: Tenant) {}
    }
    @Module({ providers: [Tenant, ReportTask], exports: [ReportTask] })
    class TaskModule {}
    const module = LonghaulModule.forRootAsync({
      imports: [TaskModule],
      inject: [ReportTask],
      useFactory: () => ({ tasks: { ...memory(), definitions: [report] } }),
    })
    for (let time = 1; time <= 2; time++) {
      await assert.rejects(app(module, { providers: [Billing] }), {
        name: 'TypeError',
        message: /^LonghaulModule: a provider that the factory injects, or one below it, has the scope REQUEST/,
      })
    }
  })

  test('a provider of a task that injects the tasks fails as a circular dependency, and does not hang the start', async () => {
    @Injectable()
    class Circular {
      constructor(@Inject(TASKS) readonly tasks: Tasks) {}
    }
    @Module({ providers: [Circular], exports: [Circular] })
    class TaskModule {}
    const module = LonghaulModule.forRootAsync({
      imports: [TaskModule],
      inject: [Circular],
      useFactory: () => ({ tasks: { ...memory(), definitions: [report] } }),
    })
    await assert.rejects(app(module, {}), /circular dependency has been detected/)
  })

  test('the run of a task that is a provider gets the tasks from ModuleRef', async () => {
    @Injectable()
    class Reporter {
      constructor(@Inject(ModuleRef) readonly modules: ModuleRef) {}

      readonly definition = defineTask({
        name: 'reporter',
        run: async () => {
          await this.modules.get<Tasks>(TASKS, { strict: false }).submit(report, { ms: 0 }, { id: 'one-report' })
        },
      })
    }
    @Module({ providers: [Reporter], exports: [Reporter] })
    class TaskModule {}
    const module = LonghaulModule.forRootAsync({
      imports: [TaskModule],
      inject: [Reporter],
      useFactory: ({ definition }: Reporter) => ({ tasks: { ...memory(), definitions: [definition, report] } }),
    })
    const nest = await app(module, {})
    const tasks = nest.get<Tasks>(TASKS)
    const { taskId } = await tasks.submit(nest.get(Reporter).definition, {})
    assert.equal((await tasks.wait(taskId, { timeoutMs: 60_000 }))?.status, 'completed')
    assert.equal((await tasks.wait('one-report', { timeoutMs: 60_000 }))?.status, 'completed')
    await nest.close()
  })

  test('one module may be in several applications', async () => {
    const module = LonghaulModule.forRootAsync({
      useFactory: () => ({ tasks: { ...memory(), definitions: [report] } }),
    })
    @Module({ imports: [module] })
    class App {}
    const create = (): Promise<INestApplication> => NestFactory.create(App, { logger: false, abortOnError: false })
    const both = [await create(), await create()]
    for (const nest of both) await nest.init()
    for (const nest of both) await nest.close()
  })

  test('a controller that needs endpoints fails with a message if there are none', async () => {
    const module = LonghaulModule.forRoot({ tasks: { ...memory(), definitions: [report] } })
    await assert.rejects(
      app(module, { controllers: [Reports] }),
      /TASK_ENDPOINTS: pass the option endpoints to LonghaulModule/,
    )
  })
})
