import { accessSync, constants } from 'node:fs'
import { httpSender } from 'longhaul/callbacks'
import { FolderBlobs } from 'longhaul/files'
import { tunnel } from './tunnel.js'
import { parseTokens, type Token } from './auth.js'
import { isSqlite } from './sqlite-file.js'
import { defaultFolder, isPostgres, type StorageConfig } from './storage.js'
import { callbackSecrets, type CallbackConfig } from './callbacks.js'

/** Settings from the environment. All of it is read and checked here, before anything starts. */
export interface Config extends CallbackConfig, StorageConfig {
  readonly host: string
  /** 0: the system picks a free one. */
  readonly port: number
  readonly tokens: readonly Token[]
  /** `on`: requests and tasks. `off`: requests only. `only`: tasks only. Default `on`. */
  readonly worker?: 'on' | 'off' | 'only'
  /** Requests a minute for one principal, or for one address of those whom nobody knows. Default 600. */
  readonly rateLimit?: number
  /** Milliseconds that running tasks have to end after a SIGTERM. Default 10 000. */
  readonly drainMs?: number
  /** Responses TRACE. Default: it is a 405. */
  readonly trace?: boolean
  /** Targets of tunnels, `host:port` each; `self` is the address of this server. Default: none, and CONNECT is a 501. */
  readonly connectAllow?: readonly string[] | 'self'
}

/** A setting that can't work. Its message says what to do, and is all that the operator is shown. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** Everybody can read these here, so they are for trying things out only. */
export const DEMO_TOKENS = 'demo-reader=reader:reader,demo-writer=writer:writer,demo-admin=admin:admin'

const isDemo = ({ token }: Token): boolean => token.startsWith('demo-')

/** Reads the settings. Throws a `ConfigError` for one that can't work. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const tokens = readTokens(env['AUTH_TOKENS'] ?? DEMO_TOKENS)
  // All methods of SPEC 4.1 work as they come where the server is only tried out.
  const demo = env['AUTH_TOKENS'] === undefined
  if (env['NODE_ENV'] === 'production' && tokens.some(isDemo)) {
    throw new ConfigError('The demo tokens are no secret, so they are refused when NODE_ENV is production; set AUTH_TOKENS to token=subject:role[,…] with tokens of your own.')
  }
  const redisUrl = readRedisUrl(env['REDIS_URL'] || undefined)
  const worker = env['WORKER'] || 'on'
  if (worker !== 'on' && worker !== 'off' && worker !== 'only') throw new ConfigError(`WORKER must be on, off or only, not ${JSON.stringify(worker)}.`)
  const database = readDatabase(env['DATABASE'] || undefined, redisUrl)
  if (worker !== 'on' && redisUrl === undefined && database === 'memory') {
    throw new ConfigError(`WORKER=${worker} needs REDIS_URL, or DATABASE=postgres://… or sqlite:…: without them, web and worker processes can't see each other's tasks.`)
  }
  return {
    host: env['HOST'] || '127.0.0.1', port: readPort(env['PORT'] || '3000'), tokens, redisUrl, worker,
    drainMs: readDrain(env['DRAIN_MS'] || '10000'),
    rateLimit: readRateLimit(env['RATE_LIMIT'] || '600'), database, blobsFolder: readBlobs(env, redisUrl),
    trace: readTrace(env['TRACE'] || (demo ? 'on' : 'off')), connectAllow: readConnectAllow(env['CONNECT_ALLOW'], demo), ...readCallbacks(env),
  }
}

/** The tokens to show at start: only those that are no secret anyway. */
export function demoTokens(tokens: readonly Token[]): readonly string[] {
  return tokens.filter(isDemo).map(({ token }) => token)
}

/** Those of the demo tokens themselves that are in use: what only begins like one is somebody's own, and nothing for a page that all may read. */
export function publicTokens(tokens: readonly Token[]): readonly string[] {
  const known = new Set(parseTokens(DEMO_TOKENS).map(({ token }) => token))
  return tokens.filter(({ token }) => known.has(token)).map(({ token }) => token)
}

/** The secrets that callbacks are signed with, to show at start; none when one was set. */
export function ownCallbackSecrets({ tokens, callbackSecret }: Config): string[] {
  return callbackSecret === undefined ? [...callbackSecrets(tokens)].map(([subject, secret]) => `${subject} ${secret}`) : []
}

function readCallbacks(env: Readonly<Record<string, string | undefined>>): Omit<CallbackConfig, 'tokens'> {
  const callbackAllow = readList(env['CALLBACK_ALLOW'])
  const callbackSecret = env['CALLBACK_SECRET'] || undefined
  try {
    httpSender({ allow: callbackAllow })
  } catch (error) {
    throw new ConfigError(`CALLBACK_ALLOW: ${error instanceof Error ? error.message : 'cannot be read'}; it is a list such as 10.0.0.0/8,hooks.example.`)
  }
  if (callbackSecret !== undefined && !/^whsec_(?:[A-Za-z0-9+/]{4}){6,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(callbackSecret)) {
    throw new ConfigError('CALLBACK_SECRET must be whsec_ and base64 of 18 bytes or more, as "echo whsec_$(openssl rand -base64 24)" makes it.')
  }
  return { callbackAllow, callbackSecret }
}

function readTokens(text: string): Token[] {
  try {
    return parseTokens(text)
  } catch (error) {
    throw new ConfigError(`AUTH_TOKENS: ${error instanceof Error ? error.message : 'cannot be read'}`)
  }
}

function readRateLimit(text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text)
  throw new ConfigError(`RATE_LIMIT must be a whole number of requests a minute above 0, not ${JSON.stringify(text)}.`)
}

function readDrain(text: string): number {
  if (/^[0-9]{1,9}$/.test(text)) return Number(text)
  throw new ConfigError(`DRAIN_MS must be a whole number of milliseconds from 0, not ${JSON.stringify(text)}.`)
}

function readPort(text: string): number {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : NaN
  if (port <= 65_535) return port
  throw new ConfigError(`PORT must be a whole number from 0 to 65535 (0 picks a free one), not ${JSON.stringify(text)}.`)
}

function readTrace(text: string): boolean {
  if (text === 'on' || text === 'off') return text === 'on'
  throw new ConfigError(`TRACE must be on or off, not ${JSON.stringify(text)}.`)
}

function readConnectAllow(text: string | undefined, demo: boolean): string[] | 'self' {
  if (text === undefined && demo) return 'self'
  const allow = readList(text)
  try {
    if (allow.length > 0) tunnel({ allow })
  } catch (error) {
    throw new ConfigError(`CONNECT_ALLOW: ${error instanceof Error ? error.message : 'cannot be read'}; it is a list of host:port.`)
  }
  return allow
}

function readList(text = ''): string[] {
  return text.split(',').map((entry) => entry.trim()).filter((entry) => entry !== '')
}

function readDatabase(text: string | undefined, redisUrl: string | undefined): string {
  if (text === undefined) return redisUrl ?? 'memory'
  if (redisUrl !== undefined && (text === 'memory' || isSqlite(text))) {
    const place = text === 'memory' ? 'in one process, and with REDIS_URL tasks may run in another one' : 'on one machine, and with REDIS_URL tasks may run on another one'
    throw new ConfigError(`DATABASE=${text} keeps the users ${place}; leave DATABASE out (the users are in Redis then), or set it to a postgres:// address.`)
  }
  if (text === 'memory' || isSqlite(text) || (isPostgres(text) && URL.canParse(text))) return text
  throw new ConfigError('DATABASE must be memory, a file such as sqlite:./data.db, or an address such as postgres://user:password@127.0.0.1:5432/name.')
}

function readBlobs(env: NodeJS.ProcessEnv, redisUrl: string | undefined): string | undefined {
  const folder = env['BLOBS_DIR'] || undefined
  if (redisUrl === undefined) {
    if (folder !== undefined) throw new ConfigError('BLOBS_DIR needs REDIS_URL: without it, uploads wait in PostgreSQL, beside the file of SQLite, or in the memory of this process.')
    return undefined
  }
  const used = folder ?? defaultFolder(redisUrl, env)
  try {
    // Creates the folder, and rejects one that other users may write to.
    void new FolderBlobs(used).close()
    accessSync(used, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new ConfigError(`BLOBS_DIR: ${used} cannot be used; set it to a folder that all processes on this Redis see and may write to. ${(error as Error).message}`)
  }
  return used
}

function readRedisUrl(text: string | undefined): string | undefined {
  if (text === undefined || (/^rediss?:\/\//.test(text) && URL.canParse(text))) return text
  throw new ConfigError('REDIS_URL must be an address such as redis://127.0.0.1:6379.')
}
