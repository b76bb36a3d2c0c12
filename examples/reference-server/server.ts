import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { compose, createTasks } from 'longhaul'
import { cors } from 'longhaul/resources'
import { rateLimit, requestId, timeouts } from 'longhaul/policies'
import { attach, tunnel } from 'longhaul/node'
import { authorize, identify, type Context } from './auth.js'
import { openCallbacks } from './callbacks.js'
import { publicTokens, type Config } from './config.js'
import { Connections } from './connections.js'
import { openEngine } from './engine.js'
import { ApiDocument } from './openapi.js'
import { routes } from './routes.js'
import { background } from './tasks/definitions.js'
import { openUsers } from './users/open.js'

/** How long answers may go on after running tasks have stopped: as long as a direct answer may take, and a little. */
const ANSWERS_MS = 35_000

/** How long a client may take for taking something of its answer. */
const SEND_MS = 120_000
/** How long an idle connection is kept: longer than clients and proxies keep it, so that they close it, and no request meets a closed one. */
const IDLE_MS = 65_000

export interface StartOptions extends Config {
  /** How long a client may take for each next piece of a body, in milliseconds. Default 60 000. */
  readonly readMs?: number
  /** How long a client may take for the head of a request, in milliseconds. Default 60 000. */
  readonly headMs?: number
}

export interface RunningServer {
  /** Where it is, without a slash at the end. */
  readonly url: string
  /** Stops cleanly: answers under way finish, running tasks get `drainMs`. Calling it again changes nothing. */
  stop(): Promise<void>
}

/** Starts the reference server. Resolves when it takes requests; rejects when it can't, as when the port is taken. */
export async function startServer(options: StartOptions): Promise<RunningServer> {
  const {
    host, port, tokens, redisUrl, worker = 'on', rateLimit: limit = 600, database = redisUrl ?? 'memory', trace = false, connectAllow = [], drainMs = 10_000, readMs = 60_000,
    headMs = 60_000,
  } = options
  const users = await openUsers(database)
  const engine = openEngine(options, { web: true })
  const { store, index, queue, blobs, callbackQueue } = engine
  const { ndjson, bulk, definitions } = background(users, blobs)
  const tasks = createTasks({
    store, ...index && { index }, queue, callbacks: openCallbacks(options, callbackQueue), worker: worker === 'on', definitions,
  })
  const document = new ApiDocument()
  // Every path counts, for a subject whatever its token. A store that is full or away stops no reading; what needs it fails by itself.
  const limited = rateLimit<Context>({ store, onStoreError: 'allow', policies: [{ name: 'default', limit, windowSeconds: 60 }] })
  const handler = compose<Context>(
    requestId(),
    // Browsers send no token by themselves, so a page of any origin can only do what it has a token for.
    cors({ origins: '*', maxAgeSeconds: 600 }),
    identify(tokens), limited, timeouts({ readMs }),
    routes({ store, tasks, users, ndjson, bulk, document, demoTokens: publicTokens(tokens), trace }),
  )
  document.of(handler)

  // An upload may take longer than the five minutes that Node gives a request, as long as it moves. Without a limit for the whole request
  // Node has none for its head either, unless told so.
  const server = createServer({
    requestTimeout: 0, headersTimeout: headMs, connectionsCheckingInterval: Math.min(30_000, headMs), keepAliveTimeout: IDLE_MS,
  })
  const told = [requestId<Context>(), identify(tokens), limited]
  attach<Context>(server, handler, {
    sendTimeoutMs: SEND_MS, policies: told,
    ...connectAllow.length > 0 && { connect: tunnel<Context>({ allow: connectAllow, policies: [...told, authorize] }) },
  })
  const connections = new Connections(server)

  server.listen({ host, port })
  await once(server, 'listening')

  let stopped: Promise<void> | undefined
  return {
    url: addressOf(server.address() as AddressInfo),
    stop: () => stopped ??= (async () => {
      const answered = connections.drain(drainMs + ANSWERS_MS)
      await tasks.close({ drainMs })
      await answered
      await engine.close()
      await users.close()
    })(),
  }
}

function addressOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
