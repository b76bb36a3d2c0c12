import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { freePort, RedisServer, say } from './redis-server.js'

export interface SentinelSetup {
  readonly master: RedisServer
  readonly replica: RedisServer
  readonly sentinel: RedisServer
  readonly name: string
}

/** A master, a replica and a sentinel that promotes it half a second after the master went. For all tests of a file. */
export async function sentinelForFile(): Promise<SentinelSetup> {
  const name = 'longhaul-test'
  const quick = ['--repl-diskless-sync', 'yes', '--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
  const master = await RedisServer.start(quick)
  after(() => master.stop())
  const replica = await RedisServer.start([...quick, '--replicaof', '127.0.0.1', String(master.port)])
  after(() => replica.stop())
  await until(replica.port, 'INFO replication', /master_link_status:up/)

  const port = await freePort()
  const file = join(tmpdir(), `longhaul-sentinel-${String(port)}.conf`)
  writeFileSync(file, [
    `sentinel monitor ${name} 127.0.0.1 ${String(master.port)} 1`, `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 5000`, '',
  ].join('\n'))
  const sentinel = await RedisServer.start([file, '--sentinel'], port)
  after(() => sentinel.stop())
  await until(port, `SENTINEL replicas ${name}`, new RegExp(String(replica.port)))
  return { master, replica, sentinel, name }
}

async function until(port: number, line: string, what: RegExp): Promise<void> {
  while (!what.test(await say(port, line) ?? '')) await new Promise((resolve) => { setTimeout(resolve, 20) })
}
