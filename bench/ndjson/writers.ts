// Each writer serves the same records over HTTP; the client only counts bytes.
import { Readable } from 'node:stream'
import type { RequestListener } from 'node:http'
import fastJson from 'fast-json-stringify'
import ndjson from 'ndjson'
import { ndjsonDownload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'

const integer = { type: 'integer' }
const number = { type: 'number' }
const string = { type: 'string' }
const object = (properties: object): object => ({ type: 'object', properties })
const array = (items: object): object => ({ type: 'array', items })

export const SCHEMAS: Readonly<Record<string, Record<string, unknown>>> = {
  'small': { ...object({ id: integer, name: string, email: string, active: { type: 'boolean' } }) },
  '1 KiB': {
    ...object({
      id: integer, name: string, email: string, address: object({ street: string, city: string, geo: object({ lat: number, lng: number }) }),
      tags: array(string), history: array(object({ at: string, kind: string, page: string })), note: string,
    }),
  },
}

const head: (res: Parameters<RequestListener>[1]) => void = (res) => { res.writeHead(200, { 'content-type': 'application/x-ndjson' }) }

/** Yields single records, as the cursor of a database does. `yield*` of an array would cost another promise for each record. */
async function* oneByOne(records: readonly object[]): AsyncGenerator<object> {
  for (const record of records) yield record
}

/** Writes 64 KiB of lines at a time, at the speed of the client. */
function handTuned(records: readonly object[], stringify: (record: object) => string): RequestListener {
  return async (_req, res) => {
    head(res)
    let lines: string[] = []
    let size = 0
    for (const record of records) {
      const line = stringify(record)
      lines.push(line)
      size += line.length + 1
      if (size < 65_536) continue
      const room = res.write(`${lines.join('\n')}\n`)
      lines = []
      size = 0
      if (!room) await new Promise((resolve) => { res.once('drain', resolve) })
    }
    res.end(lines.length > 0 ? `${lines.join('\n')}\n` : undefined)
  }
}

/** The same over an async generator: what `for await` costs for each record is in it. */
function handTunedAsync(records: readonly object[], stringify: (record: object) => string): RequestListener {
  return async (_req, res) => {
    head(res)
    let lines: string[] = []
    let size = 0
    for await (const record of oneByOne(records)) {
      const line = stringify(record)
      lines.push(line)
      size += line.length + 1
      if (size < 65_536) continue
      const room = res.write(`${lines.join('\n')}\n`)
      lines = []
      size = 0
      if (!room) await new Promise((resolve) => { res.once('drain', resolve) })
    }
    res.end(lines.length > 0 ? `${lines.join('\n')}\n` : undefined)
  }
}

/** The writers. The first is the limit, with the faster serialiser: a compiled one for small records, JSON.stringify for the others. */
export function writers(kind: string, records: readonly object[]): Record<string, RequestListener> {
  const schema = SCHEMAS[kind] as Record<string, unknown>
  const stringify = kind === 'small' ? fastJson(schema as object) as (record: object) => string : JSON.stringify
  return {
    'hand-tuned loop': handTuned(records, stringify),
    'hand-tuned loop, JSON.stringify': handTuned(records, JSON.stringify),
    'hand-tuned loop over the same async generator': handTunedAsync(records, stringify),
    'hand-tuned loop over the same async generator, JSON.stringify': handTunedAsync(records, JSON.stringify),
    'longhaul, iterable, with a schema': toNode(ndjsonDownload({ records: () => records, schema })),
    'longhaul, iterable, no schema': toNode(ndjsonDownload({ records: () => records })),
    'longhaul, async generator of single records, with a schema': toNode(ndjsonDownload({ records: () => oneByOne(records), schema })),
    'longhaul, async generator of single records, no schema': toNode(ndjsonDownload({ records: () => oneByOne(records) })),
    'Readable.from(lines).pipe(res)': (_req, res) => {
      head(res)
      Readable.from((function* () { for (const each of records) yield `${JSON.stringify(each)}\n` })()).pipe(res)
    },
    'ndjson.stringify': (_req, res) => {
      head(res)
      Readable.from(records).pipe(ndjson.stringify()).pipe(res)
    },
  }
}
