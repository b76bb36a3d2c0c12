import timers from 'node:timers'
import type { RedisClient } from '../client.js'

// Captured at once: Redis keeps real time, even under a test's fake timers.
const { setTimeout } = timers

/** Time that notices are collected after one was sent, in milliseconds. */
const GATHER_MS = 5

/** Notifies other processes: at once, and then of everything that comes soon together. */
export class Announcements {
  private readonly channels = new Set<string>()
  private isGathering = false
  private isClosed = false

  constructor(private readonly client: RedisClient) {}

  /** Publishes an empty message. A lost message is harmless, because workers also search. */
  add(channel: string): void {
    this.channels.add(channel)
    this.send()
  }

  close(): void {
    this.isClosed = true
    this.channels.clear()
  }

  private send(): void {
    if (this.channels.size === 0 || this.isGathering || this.isClosed) return
    this.isGathering = true
    for (const channel of this.channels) this.client.publish(channel, '').catch(() => undefined)
    this.channels.clear()
    setTimeout(() => {
      this.isGathering = false
      this.send()
    }, GATHER_MS).unref()
  }
}
