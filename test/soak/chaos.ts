import { setTimeout as sleep } from 'node:timers/promises'
import { say, type RedisServer } from '../servers/redis-server.js'
import type { Random } from './random.js'

const WEIGHTS = { kill: 3, pause: 3, fill: 3, drop: 2, killWorker: 2, stopWorker: 1, freezeWorker: 1 } as const
export type Blow = keyof typeof WEIGHTS

/** What the worker can be told by whoever runs it. */
export interface WorkerControl {
  kill(): Promise<void>
  /** SIGTERM, and another one in its place. */
  replace(): Promise<void>
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
}

/** Does harm to Redis and the worker, one thing at a time, at random; all is well again after each. */
export class Chaos {
  readonly done: { readonly atMs: number, readonly blow: Blow, readonly ms: number }[] = []
  private readonly began = performance.now()

  constructor(private readonly redis: RedisServer, private readonly worker: WorkerControl, private readonly random: Random) {}

  async run(everyMs: readonly [number, number], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.random.between(...everyMs), undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      const blow = this.random.pick(WEIGHTS)
      const ms = Math.round(this.random.between(200, 5000))
      this.done.push({ atMs: Math.round(performance.now() - this.began), blow, ms })
      await this.strike(blow, ms)
    }
  }

  private async strike(blow: Blow, ms: number): Promise<void> {
    const { redis, worker } = this
    if (blow === 'kill') {
      await redis.kill()
      await sleep(ms)
      await redis.run()
    } else if (blow === 'pause') {
      redis.freeze()
      await sleep(ms)
      redis.thaw()
    } else if (blow === 'fill') {
      await say(redis.port, 'CONFIG SET maxmemory 1')
      await sleep(ms / 2)
      await say(redis.port, 'CONFIG SET maxmemory 0')
    } else if (blow === 'drop') {
      await say(redis.port, 'CLIENT KILL TYPE pubsub')
      await say(redis.port, 'CLIENT KILL TYPE normal')
    } else if (blow === 'killWorker') await worker.kill()
    else if (blow === 'stopWorker') await worker.replace()
    else {
      // Past its lock, now and then.
      worker.signal('SIGSTOP')
      await sleep(2 * ms)
      worker.signal('SIGCONT')
    }
  }
}
