import { releaseLast } from '../../scripts/test-releases.mjs'
import { RedisServer, say } from './redis-server.js'

export interface SentinelSetup {
  readonly master: RedisServer
  readonly replica: RedisServer
  /** Options of a client that finds the master. */
  readonly options: {
    readonly name: string
    readonly sentinels: { readonly host: string, readonly port: number }[]
    readonly sentinelRetryStrategy: () => number
    readonly retryStrategy: () => number
  }
}

/**
 * A master, a replica and three sentinels, of which two promote the replica after the master went.
 * For all tests of a file.
 *
 * @param downAfterMs - time without a reply after which a server is down for a sentinel
 */
export async function sentinelForFile(downAfterMs = 500): Promise<SentinelSetup> {
  const name = 'longhaul-test'
  const start = async (args: readonly string[], config?: string): Promise<RedisServer> => {
    const server = await RedisServer.start(args, config)
    releaseLast(() => server.stop())
    return server
  }
  const quick = ['--repl-diskless-sync', 'yes', '--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
  const master = await start(quick)
  const replica = await start([...quick, '--replicaof', '127.0.0.1', String(master.port)])
  await until(replica.port, 'INFO replication', /master_link_status:up/)
  const sentinels = await Promise.all(
    [1, 2, 3].map(() =>
      start(
        ['--sentinel'],
        [
          `sentinel monitor ${name} 127.0.0.1 ${String(master.port)} 2`,
          `sentinel down-after-milliseconds ${name} ${String(downAfterMs)}`,
          `sentinel failover-timeout ${name} 5000`,
          '',
        ].join('\n'),
      ),
    ),
  )
  for (const { port } of sentinels) {
    await until(port, `SENTINEL ckquorum ${name}`, /^\+OK 3 /)
    await until(port, `SENTINEL replicas ${name}`, new RegExp(String(replica.port)))
  }
  return {
    master, replica, options: {
      name, sentinels: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
      sentinelRetryStrategy: () => 100, retryStrategy: () => 100,
    },
  }
}

async function until(port: number, line: string, what: RegExp): Promise<void> {
  while (!what.test(await say(port, line) ?? '')) await new Promise((resolve) => { setTimeout(resolve, 20) })
}
