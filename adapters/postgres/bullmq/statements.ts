import { bullMigrationSql, bullSchema } from './schema.js'

/** A statement with its values. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** Time of the server in milliseconds since 1970. */
const NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint'

/** BullMQ's functions that get the time of the process, and the names of these parameters. */
const TIMED = new Set([
  'add_job', 'move_to_active', 'move_to_completed', 'move_to_completed_fetch', 'move_to_failed',
  'move_to_failed_fetch', 'move_active_to_wait', 'move_stalled_jobs_to_wait', 'next_signal',
  'extend_lock', 'change_delay',
])
const TIMES = new Set(['p_now', 'p_timestamp', 'p_finished_on'])

const FUNCTION = /\bCREATE (?:OR REPLACE )?FUNCTION (\w+)\s*\(([^)]*)\)/g
const RELATION = /\bCREATE (?:TABLE|TYPE) (?:IF NOT EXISTS )?(\w+)/g
const CALL = /(?<![\w.])(\w+)\(([^()]*)\)/g
const NEXT_DELAY = /\bnext_delay\(\$1\)/
const NEXT_SIGNAL = /\brate_limit_ttl, next_delay\b/
const EXTEND_LOCKS = /\$5::bigint \+ \$4::bigint/

/**
 * Adapts BullMQ's statements for the pool of the host. BullMQ expects its schema in the
 * `search_path`, and passes the time of the process.
 *
 * - Names of tables, types and functions get their schema, because the host's connections have
 *   their own `search_path`.
 * - Times are those of the server. A worker with a wrong clock would take jobs from live workers.
 */
export class Statements {
  private readonly texts = new Map<string, string>()

  private constructor(
    private readonly schema: string,
    /** Names of the parameters of each function. */
    private readonly functions: ReadonlyMap<string, readonly string[]>,
    /** Names of tables and types. */
    private readonly relations: ReadonlySet<string>,
  ) {}

  /** Reads the names from the migrations of the installed BullMQ. */
  static async of(schema: string): Promise<Statements> {
    const sql = withoutComments(await bullMigrationSql(schema))
    const functions = new Map<string, readonly string[]>()
    for (const [, name = '', parameters = ''] of sql.matchAll(FUNCTION)) {
      functions.set(name, parameters.split(',').map((each) => each.trim().split(' ')[0] ?? ''))
    }
    const relations = new Set<string>()
    for (const [, name = ''] of sql.matchAll(RELATION)) relations.add(name)
    return new Statements(`"${bullSchema(schema)}"`, functions, relations)
  }

  /** Returns a statement of BullMQ as it is sent to the server. */
  adapt(text: string, values: readonly unknown[] = []): Statement {
    let adapted = this.texts.get(text)
    if (adapted === undefined) {
      adapted = this.withSchema(this.withServerTime(withoutComments(text)))
      this.texts.set(text, adapted)
    }
    const storable = values.map(toStorable)
    // BullMQ compares the reply with the clock of this process.
    if (NEXT_DELAY.test(text)) storable.push(Date.now())
    return { text: adapted, values: storable }
  }

  private withServerTime(text: string): string {
    return text
      .replace(CALL, (call, name: string, list: string) => {
        const parameters = this.functions.get(name) ?? []
        if (name === 'move_to_delayed') return delayedByServer(list)
        if (!TIMED.has(name)) return call
        const values = list.split(',').map((value, at) => (
          TIMES.has(parameters[at] ?? '') ? insteadOf(value) : value
        ))
        return `${name}(${values.join(',')})`
      })
      .replace(EXTEND_LOCKS, `${insteadOf('$5')} + $4::bigint`)
      .replace(NEXT_DELAY, `next_delay($1) - ${NOW} + $2::bigint`)
      .replace(NEXT_SIGNAL, `rate_limit_ttl, next_delay - ${NOW} + $3::bigint AS next_delay`)
  }

  private withSchema(text: string): string {
    return text
      .replace(/(?<![\w.])(\w+)(?=\()/g, (name: string) => (
        this.functions.has(name) ? `${this.schema}.${name}` : name
      ))
      .replace(/\b(FROM|JOIN|INTO|UPDATE)(\s+)(\w+)\b/g, (all, word: string, space: string, name: string) => (
        this.relations.has(name) ? `${word}${space}${this.schema}.${name}` : all
      ))
      .replace(/::(\w+)/g, (cast: string, name: string) => (
        this.relations.has(name) ? `::${this.schema}.${name}` : cast
      ))
  }
}

/** Returns the server's time. Mentions the value, because the server refuses unused parameters. */
function insteadOf(value: string): string {
  return ` ${NOW} + 0 * ${value.trim()}::bigint`
}

/** BullMQ passes its own time plus the delay as the fourth value, and the delay as the fifth. */
function delayedByServer(list: string): string {
  const values = list.split(',')
  values[3] = `${insteadOf('$4')} + $5::bigint`
  return `move_to_delayed(${values.join(',')})`
}

function withoutComments(text: string): string {
  return text.replace(/--.*$/gm, '')
}

/**
 * Replaces what PostgreSQL refuses in text and JSON: NUL, and halves of characters. They may stand
 * in the message of an error with which a run failed.
 */
function toStorable(value: unknown): unknown {
  if (typeof value !== 'string' || !/\0|\\u/.test(value)) return value
  return value.replaceAll('\0', '\ufffd')
    .replace(/\\(?:u[0-9a-f]{4}|[^])/gi, (escape) => (
      /^\\u(?:0000|d[89a-f])/i.test(escape) ? '\\ufffd' : escape
    ))
}
