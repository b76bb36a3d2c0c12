import type { PgliteClient } from './client.js'
import type { Connections, Query, Running, Subscriber, Subscription } from './connections.js'

/** PGlite: PostgreSQL inside this process, with one session. */
export class PgliteConnections implements Connections {
  readonly shared = false

  constructor(private readonly pglite: PgliteClient) {}

  start<Row>(text: string, values: readonly unknown[]): Running<Row> {
    const rows = this.pglite.query(text, values as unknown[])
      .then((result) => result.rows as Row[])
    // There is no connection to close.
    return { rows, cancel: () => undefined }
  }

  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.pglite.transaction((transaction) => (
      work(async <Row>(text: string, values: readonly unknown[] = []) => (
        (await transaction.query(text, values as unknown[])).rows as Row[]
      ))
    ))
  }

  async listen(channel: string, subscriber: Subscriber): Promise<Subscription> {
    let isOver = false
    const unlisten = await this.pglite.listen(`"${channel}"`, (payload) => {
      if (!isOver) subscriber.onNotice(payload)
    })
    return {
      close: () => {
        isOver = true
        unlisten().catch(() => undefined)
      },
    }
  }
}
