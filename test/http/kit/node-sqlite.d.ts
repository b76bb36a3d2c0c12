// node:sqlite, which Node has from 22.13 on. The types of Node 20, with which this repository is
// compiled, do not have it.
declare module 'node:sqlite' {
  type Value = null | number | bigint | string | Uint8Array

  export class StatementSync {
    all(...values: Value[]): Record<string, Value>[]
    run(...values: Value[]): { changes: number | bigint, lastInsertRowid: number | bigint }
  }

  export class DatabaseSync {
    constructor(path: string)
    exec(sql: string): void
    prepare(sql: string): StatementSync
    close(): void
  }
}
