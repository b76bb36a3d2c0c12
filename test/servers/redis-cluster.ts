import { execFile } from 'node:child_process'
import { releaseLast } from '../../scripts/test-releases.mjs'
import { redisCli, redisEnvironment } from './redis-binary.js'
import { RedisServer, say } from './redis-server.js'

const SLOTS = 16_384

/** A cluster of three masters for all tests of a file. */
export async function clusterForFile(): Promise<readonly RedisServer[]> {
  const servers = await Promise.all(
    [0, 1, 2].map(() => RedisServer.start(['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'])),
  )
  releaseLast(() => Promise.all(servers.map((server) => server.stop())))
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

/**
 * A namespace whose slot is one of the lowest, so that the tool, which moves the lowest ones first,
 * moves few others.
 */
export async function lowNamespace({ port }: RedisServer): Promise<string> {
  for (let n = 0; ; n++) {
    const name = `moves-${String(n)}`
    if (Number((await say(port, `CLUSTER KEYSLOT {${name}}`))?.slice(1)) < 40) return name
  }
}

/** Moves the slot of a key to another server with `redis-cli --cluster reshard`. Returns what it prints. */
export async function moveSlot(key: string, servers: readonly RedisServer[]): Promise<string> {
  const [first] = servers as [RedisServer]
  const slot = Number((await say(first.port, `CLUSTER KEYSLOT ${key}`))?.slice(1))
  const nodes = await Promise.all(servers.map(async ({ port }) => {
    const own = (await say(port, 'CLUSTER NODES'))?.split('\n').find((line) => line.includes('myself')) ?? ''
    const [id = '', , , , , , , , ...ranges] = own.trim().split(' ')
    const slots = ranges.flatMap((range) => {
      const [from = 0, to = from] = range.split('-').map(Number)
      return Array.from({ length: to - from + 1 }, (_, n) => from + n)
    })
    return { id, slots }
  }))
  const source = nodes.find(({ slots }) => slots.includes(slot))
  const target = nodes.find((node) => node !== source)
  if (!source || !target) throw new Error(`No server has the slot ${String(slot)}`)
  // The tool moves the lowest slots of the source.
  const count = source.slots.sort((a, b) => a - b).indexOf(slot) + 1
  return redisCommand([
    '--cluster', 'reshard', `127.0.0.1:${String(first.port)}`, '--cluster-from', source.id, '--cluster-to', target.id,
    '--cluster-slots', String(count), '--cluster-yes',
  ])
}

/** Begins to move the slot of a key, as the tool does, and moves one key of it. `end` lets the tool move the others. */
export async function openSlot(
  key: string,
  servers: readonly RedisServer[],
): Promise<{ readonly end: () => Promise<unknown> }> {
  const [first] = servers as [RedisServer]
  const slot = (await say(first.port, `CLUSTER KEYSLOT ${key}`))?.slice(1).trim() ?? ''
  const counts = await Promise.all(servers.map(({ port }) => say(port, `CLUSTER COUNTKEYSINSLOT ${slot}`)))
  const at = counts.findIndex((count) => Number(count?.slice(1)) > 0)
  const [source, target] = [servers[at], servers[(at + 1) % servers.length]] as [RedisServer, RedisServer]
  const [from = '', to = ''] = await Promise.all(
    [source, target].map(async ({ port }) => (await say(port, 'CLUSTER MYID'))?.split('\r\n')[1]),
  )
  await expectOk(target.port, `CLUSTER SETSLOT ${slot} IMPORTING ${from}`)
  await expectOk(source.port, `CLUSTER SETSLOT ${slot} MIGRATING ${to}`)
  const moved = (await say(source.port, `CLUSTER GETKEYSINSLOT ${slot} 1`))?.split('\r\n')[2] ?? ''
  await expectOk(source.port, `MIGRATE 127.0.0.1 ${String(target.port)} ${moved} 0 5000`)
  return { end: () => redisCommand(['--cluster', 'fix', `127.0.0.1:${String(first.port)}`]) }
}

/** Runs redis-cli. Rejects with its output if it fails. */
function redisCommand(args: readonly string[]): Promise<string> {
  const cli = redisCli()
  return new Promise((resolve, reject) => {
    execFile(cli.file, args, { env: redisEnvironment(cli), maxBuffer: 2 ** 26 }, (error, out, err) => {
      if (error || /\[ERR\]|Error/.test(out)) reject(new Error(`${out.slice(-2000)}\n${err}`, { cause: error }))
      else resolve(out)
    })
  })
}

async function expectOk(port: number, line: string): Promise<void> {
  const answer = await say(port, line)
  if (answer?.startsWith('+OK') !== true) throw new Error(`${line.slice(0, 40)}: ${String(answer)}`)
}
