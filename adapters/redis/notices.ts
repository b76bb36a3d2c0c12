import timers from 'node:timers'
import type { RedisClient } from './client.js'
import { NOTIFY, runScript } from './scripts.js'

// Taken at once: Redis keeps real time, also under a test's fake timers, and one of those would be
// the last when they go.
const { setTimeout } = timers

/** Maximum number of channels in one command. */
const MOST = 500

/** Time that notices are collected, in milliseconds. */
const GATHER_MS = 5

/**
 * Collects notices of new entries and sends them in one command. A PUBLISH for each would cost as
 * much as the entry itself, and a key is rarely watched before it exists.
 */
export class Notices {
  private channels: string[] = []

  constructor(private readonly client: RedisClient) {}

  add(channel: string): void {
    const { length } = this.channels
    this.channels[length] = channel
    if (length === 0) setTimeout(() => { this.send() }, GATHER_MS)
    else if (length === MOST - 1) this.send()
  }

  private send(): void {
    const [channel, ...others] = this.channels
    if (channel === undefined) return
    this.channels = []
    const sent = others.length === 0
      ? this.client.publish(channel, '')
      : runScript(this.client, NOTIFY, 0, channel, ...others)
    // A lost notice is harmless: watchers also read at intervals.
    sent.catch(() => undefined)
  }
}
