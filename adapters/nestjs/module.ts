import * as nest from '@nestjs/common'
import type {
  BeforeApplicationShutdown, DynamicModule, FactoryProvider, ModuleMetadata, OnModuleInit, Provider,
} from '@nestjs/common'
import { wrongPeer } from '../../src/runtime/peer.js'
import { duration, readOptions, value, type Filled, type OptionTable } from '../../src/runtime/options.js'
// From the index: see `ownEntry` in tsup.config.ts.
import {
  createTasks, taskEndpoints, type TaskEndpoints, type TaskEndpointsOptions, type Tasks,
  type TasksOptions,
} from '../../src/index.js'

// Strings, because Nest cannot write a symbol into its message about a circular dependency.
/** The token under which the module provides the `Tasks`: `@Inject(TASKS)`. */
export const TASKS = 'longhaul.TASKS'

/** Token of the `TaskEndpoints`: `@Inject(TASK_ENDPOINTS)`. Requires the option `endpoints`. */
export const TASK_ENDPOINTS = 'longhaul.TASK_ENDPOINTS'

/** The request context that `toNode` and `toFastify` make: the user whom a guard has set. */
export interface NestContext<User = { readonly id: string }> {
  /** `request.user`; `undefined` if no guard has set it. */
  readonly user?: User
}

/** Options of `LonghaulModule`. */
export interface LonghaulModuleOptions<User = { readonly id: string }> {
  /** Options of `createTasks`: the engine and the definitions. */
  readonly tasks: TasksOptions
  /** Options of `taskEndpoints`. `statusPath` includes the global prefix. Default: no endpoints. */
  readonly endpoints?: TaskEndpointsOptions<NestContext<User>>
  /** Time that active runs get to finish at the end, in milliseconds. Default: 10 000. */
  readonly drainMs?: number
}

/** Options of `LonghaulModule.forRootAsync`. */
export interface LonghaulModuleAsyncOptions<User = { readonly id: string }>
  extends Pick<ModuleMetadata, 'imports'>,
  Pick<FactoryProvider<LonghaulModuleOptions<User>>, 'inject' | 'useFactory'> {}

const OPTIONS = {
  tasks: value('the options of createTasks', undefined, { required: true }), endpoints: value(),
  drainMs: duration({ max: Infinity, infinity: true, default: 10_000 }),
} satisfies OptionTable<LonghaulModuleOptions>

type ReadOptions = Filled<LonghaulModuleOptions, typeof OPTIONS>

const MODULE_OPTIONS = 'longhaul.MODULE_OPTIONS'

/** Drains the tasks before Nest closes the server, so that waiting requests get a response. */
class TasksLifecycle implements BeforeApplicationShutdown {
  constructor(private readonly tasks: Tasks, private readonly drainMs: number) {}

  async beforeApplicationShutdown(): Promise<void> {
    await this.tasks.close({ drainMs: this.drainMs })
  }
}

const ENDPOINTS = [
  'accept', 'callback', 'files', 'find', 'list', 'open', 'respondOnce', 'retry', 'status', 'submit',
  'tasks',
] satisfies (keyof TaskEndpoints)[]

/**
 * Replaces the endpoints if there are none. Reading an endpoint throws, and other properties do
 * not, because Nest looks for hooks.
 */
const NO_ENDPOINTS = Object.defineProperties({}, Object.fromEntries(ENDPOINTS.map((name) => {
  const get = (): never => {
    throw new TypeError('TASK_ENDPOINTS: pass the option endpoints to LonghaulModule')
  }
  return [name, { get }]
})))

const PROVIDERS: Provider[] = [
  {
    provide: TASK_ENDPOINTS, inject: [TASKS, MODULE_OPTIONS],
    useFactory: (tasks: Tasks, { endpoints }: ReadOptions) => (
      endpoints ? taskEndpoints(tasks, endpoints) : NO_ENDPOINTS
    ),
  },
  {
    provide: TasksLifecycle, inject: [TASKS, MODULE_OPTIONS],
    useFactory: (tasks: Tasks, { drainMs }: ReadOptions) => new TasksLifecycle(tasks, drainMs),
  },
]

/**
 * Checks the scope of the factory. If the factory injects a provider of the scope REQUEST, Nest
 * calls it for each request, and not at the start.
 */
class ScopeCheck implements OnModuleInit {
  /** A number, because several applications may have the same dynamic module. */
  started = 0

  onModuleInit(): void {
    if (this.started > 0) {
      this.started--
      return
    }
    throw new TypeError('LonghaulModule: a provider that the factory injects, or one below it, has the'
      + ' scope REQUEST, so each request would create its own tasks. Inject providers with the default'
      + ' scope. In a task, get the other one with ModuleRef.resolve()')
  }
}

/**
 * Creates the dynamic module. A function outside of the class, because esbuild renames a class that
 * names itself, and Nest logs the name.
 */
function moduleOf<User>(
  { imports = [], inject = [], useFactory }: LonghaulModuleAsyncOptions<User>,
): DynamicModule {
  const check = new ScopeCheck()
  const read = async (...injected: unknown[]): Promise<ReadOptions> => {
    const options = await useFactory(...injected) as LonghaulModuleOptions
    check.started++
    return readOptions('LonghaulModule', options, OPTIONS)
  }
  return {
    module: LonghaulModule, global: true, imports, exports: [TASKS, TASK_ENDPOINTS],
    providers: [
      { provide: MODULE_OPTIONS, inject, useFactory: read },
      {
        // What the options inject, too: Nest detects a circle of two providers only.
        provide: TASKS, inject: [MODULE_OPTIONS, ...inject],
        useFactory: ({ tasks }: ReadOptions) => createTasks(tasks),
      },
      { provide: ScopeCheck, useValue: check },
      ...PROVIDERS,
    ],
  }
}

/**
 * A global module of NestJS. It provides the tasks under `TASKS` and the endpoints under
 * `TASK_ENDPOINTS`, and drains the tasks at `app.close()`, and at SIGTERM after
 * `app.enableShutdownHooks()`.
 */
export class LonghaulModule {
  /**
   * Creates the tasks. An invalid option is a `TypeError` of `NestFactory.create`.
   * @example
   * LonghaulModule.forRoot({
   *   tasks: { ...memory(), definitions: [report] },
   *   endpoints: { statusPath: '/tasks/{id}', owner: ({ context }) => context.user?.id },
   * })
   */
  static forRoot<User = { readonly id: string }>(options: LonghaulModuleOptions<User>): DynamicModule {
    return moduleOf({ useFactory: () => options })
  }

  /**
   * Creates the tasks from options of a factory, which may inject providers.
   * @example
   * LonghaulModule.forRootAsync({
   *   inject: [Database],
   *   useFactory: ({ pool }: Database) => ({
   *     tasks: { ...postgres({ pool }), definitions: [report] },
   *   }),
   * })
   */
  static forRootAsync<User = { readonly id: string }>(
    options: LonghaulModuleAsyncOptions<User>,
  ): DynamicModule {
    return moduleOf(options)
  }
}

// Nest 8 has added this class.
if (!('StreamableFile' in nest)) throw wrongPeer('longhaul/nestjs', '@nestjs/common', '8 or later')

nest.Module({})(LonghaulModule)
