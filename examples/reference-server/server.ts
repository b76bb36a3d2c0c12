import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { compose, createTasks } from 'longhaul'
import { cors } from 'longhaul/resources'
import { rateLimit, requestId, timeouts } from 'longhaul/policies'
import { attach, closeOnSignal } from 'longhaul/node'
import { authorize, identify, type Context } from './auth.js'
import { openCallbacks } from './callbacks.js'
import { publicTokens, type Config } from './config.js'
import { ApiDocument } from './openapi.js'
import { routes } from './routes.js'
import { openStorage } from './storage.js'
import { background } from './tasks/definitions.js'
import { tunnel, type ConnectListener } from './tunnel.js'
import { openUsers } from './users/open.js'

/** Time that answers get after running tasks have stopped: that of a synchronous response and a little more. In milliseconds. */
const ANSWERS_MS = 35_000

/** Time after which a client that reads nothing is disconnected, in milliseconds. */
const SEND_MS = 120_000
/** Time that an idle connection is kept, in milliseconds. It is longer than that of clients and proxies, so that they close it first. */
const IDLE_MS = 65_000

/** Addresses to listen on that a client on this machine reaches as `localhost`. */
const LOCAL = new Set(['127.0.0.1', '::1', '0.0.0.0', '::'])

export interface StartOptions extends Config {
  /** Maximum time between two pieces of a body, in milliseconds. Default 60 000. */
  readonly readMs?: number
  /** Maximum time for the head of a request, in milliseconds. Default 60 000. */
  readonly headMs?: number
}

export interface RunningServer {
  /** The URL of the server, without a slash at the end. */
  readonly url: string
  /** Stops: answers under way are completed, running tasks get `drainMs`. Later calls have no effect. */
  stop(): Promise<void>
}

/** Starts the reference server. Resolves when it accepts requests. Rejects if it cannot, for example if the port is taken. */
export async function startServer(options: StartOptions): Promise<RunningServer> {
  const {
    host, port, tokens, redisUrl, worker = 'on', rateLimit: limit = 600, database = redisUrl ?? 'memory', trace = false, connectAllow = [], drainMs = 10_000, readMs = 60_000,
    headMs = 60_000,
  } = options
  const users = await openUsers(database)
  const storage = openStorage(options, { web: true })
  const { engine, store, blobs } = storage
  const { ndjson, bulk, words, many, definitions } = background(users, blobs, store)
  const tasks = createTasks({ engine, store, blobs, callbacks: openCallbacks(options), worker: worker === 'on', definitions })
  const document = new ApiDocument()
  // Counts all paths together, for each subject. A store that is full or away does not stop reads: requests that need it fail themselves.
  const limited = rateLimit<Context>({ store, onStoreError: 'allow', policies: [{ name: 'default', limit, windowSeconds: 60 }] })
  const handler = compose<Context>(
    requestId(),
    // Browsers send no token by themselves, so a page of any origin needs a token of its own.
    cors({ origins: '*', maxAgeSeconds: 600 }),
    identify(tokens), limited, timeouts({ readMs }),
    routes({
      store, tasks, users, ndjson, bulk, words, many, document, trace, demoTokens: publicTokens(tokens),
      kinds: definitions.map(({ name }) => name).filter((name) => !Object.values(many).some((each) => each.name === name)),
    }),
  )
  document.of(handler)

  // An upload may take longer than the five minutes that Node allows, if bytes keep arriving. Without a limit for the whole request
  // Node also has none for its head, unless it is set.
  const server = createServer({
    requestTimeout: 0, headersTimeout: headMs, connectionsCheckingInterval: Math.min(30_000, headMs), keepAliveTimeout: IDLE_MS,
  })
  const told = [requestId<Context>(), identify(tokens), limited]
  const tunnelTo = (allow: readonly string[]): ConnectListener => tunnel({ allow, policies: [...told, authorize] })
  if (connectAllow.length > 0) {
    server.on('connect', connectAllow === 'self' ? tunnelToSelf(server, tunnelTo) : tunnelTo(connectAllow))
  }
  attach<Context>(server, handler, { sendTimeoutMs: SEND_MS, policies: told })
  const close = closeOnSignal({
    server, tasks, drainMs, timeoutMs: drainMs + 2 * ANSWERS_MS, signals: [],
    afterwards: async () => {
      await storage.close()
      await users.close()
    },
  })

  server.listen({ host, port })
  await once(server, 'listening')

  return { url: addressOf(server.address() as AddressInfo), stop: close }
}

/** Returns a listener whose tunnels lead to the server itself. Its address is known only when it listens. */
function tunnelToSelf(server: Server, tunnelTo: (allow: readonly string[]) => ConnectListener): ConnectListener {
  let own: ConnectListener | undefined
  return (req, socket, head) => {
    own ??= tunnelTo(ownAddresses(server.address() as AddressInfo))
    return own(req, socket, head)
  }
}

/** Returns the names under which a client on this machine reaches the server. */
function ownAddresses({ address, port }: AddressInfo): string[] {
  const hosts = LOCAL.has(address) ? ['localhost', '127.0.0.1', '[::1]'] : [address.includes(':') ? `[${address}]` : address]
  return hosts.map((host) => `${host}:${port}`)
}

function addressOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
