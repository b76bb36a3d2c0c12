import { after } from 'node:test'
import { RedisServer, say } from './redis-server.js'

const SLOTS = 16_384

/** A cluster of three masters for all tests of a file. */
export async function clusterForFile(): Promise<readonly RedisServer[]> {
  const servers = await Promise.all([0, 1, 2].map(() => RedisServer.start(['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'])))
  after(() => Promise.all(servers.map((server) => server.stop())))
  for (const [at, { port }] of servers.entries()) {
    const share = Math.ceil(SLOTS / servers.length)
    const slots = Array.from({ length: Math.min(SLOTS, (at + 1) * share) - at * share }, (_, slot) => at * share + slot)
    await expectOk(port, `CLUSTER ADDSLOTS ${slots.join(' ')}`)
    await expectOk(port, `CLUSTER SET-CONFIG-EPOCH ${String(at + 1)}`)
  }
  for (const { port } of servers.slice(1)) await expectOk(port, `CLUSTER MEET 127.0.0.1 ${String(servers[0]?.port)}`)
  for (const { port } of servers) {
    while (!/cluster_state:ok[^]*cluster_known_nodes:3/.test(await say(port, 'CLUSTER INFO') ?? '')) {
      await new Promise((resolve) => { setTimeout(resolve, 20) })
    }
  }
  return servers
}

async function expectOk(port: number, line: string): Promise<void> {
  const answer = await say(port, line)
  if (answer?.startsWith('+OK') !== true) throw new Error(`${line.slice(0, 40)}: ${String(answer)}`)
}
