import { EventEmitter } from 'node:events'
import type { PostgresConnection } from 'bullmq'
import { loadBullMQ } from '../../bullmq/load-bullmq.js'
import type { JobDatabase } from './job-database.js'
import { JobNotices } from './job-notices.js'
import { bullSchema } from './schema.js'

type ListenClient = Awaited<ReturnType<PostgresConnection['getListenClient']>>

/**
 * Opens BullMQ's connection on the pool of the host. BullMQ's own class would keep a failed start
 * for ever, could leave its LISTEN connection open after a close, and has no deadlines.
 */
export function openConnection(
  database: JobDatabase, schema: string, queue: string,
): PostgresConnection {
  connectionClass ??= defineConnection()
  return new connectionClass(database, schema, queue)
}

type ConnectionClass = new (
  database: JobDatabase, schema: string, queue: string,
) => PostgresConnection

let connectionClass: ConnectionClass | undefined

/** Defines the class at the first use, because its base class is BullMQ's. */
function defineConnection(): ConnectionClass {
  const { PostgresConnection } = loadBullMQ()
  return class HostConnection extends PostgresConnection {
    override readonly schema: string
    private isClosed = false
    private readonly client = new NoticeEmitter()
    private notices: JobNotices | undefined

    constructor(
      private readonly database: JobDatabase, schema: string, private readonly queue: string,
    ) {
      super(poolOf(database))
      this.schema = bullSchema(schema)
    }

    override waitUntilReady(): Promise<void> {
      return this.database.ready()
    }

    override getListenClient(): Promise<ListenClient> {
      if (!this.isClosed) {
        this.notices ??= new JobNotices(this.database, this.queue, () => {
          this.client.emit('notification', { channel: 'bullmq_jobs', payload: this.queue })
        })
      }
      return Promise.resolve(this.client)
    }

    /** BullMQ looks for jobs itself at least every 10 seconds. */
    override get hasListenClientKeepAlive(): boolean {
      return false
    }

    /** The connection that listens has the host's name, since it may serve others too. */
    override setListenClientName(): Promise<void> {
      return Promise.resolve()
    }

    /** After this, BullMQ starts no more statements. */
    override get isClosing(): Promise<void> | undefined {
      return this.isClosed ? Promise.resolve() : undefined
    }

    override close(): Promise<void> {
      if (!this.isClosed) {
        this.isClosed = true
        this.notices?.close()
        this.emit('close')
      }
      return Promise.resolve()
    }

    override disconnect(): Promise<void> {
      return this.close()
    }
  }
}

/** The client that BullMQ listens on. It has no connection of its own. */
class NoticeEmitter extends EventEmitter {
  query(): Promise<{ rows: never[] }> {
    return Promise.resolve({ rows: [] })
  }
}

type BullPool = PostgresConnection['pool']

/** The members of a pool that BullMQ uses. */
function poolOf(database: JobDatabase): BullPool {
  const pool = {
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      const rows = [...await database.bull<Row>(text, values)]
      return { rows, rowCount: rows.length }
    },
    connect: () => Promise.reject(new Error('BullMQ needs no connection of its own')),
    end: () => Promise.resolve(),
    on: () => pool,
    removeAllListeners: () => pool,
  }
  return pool
}
