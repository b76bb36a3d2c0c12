// Each writer serves the same records over HTTP; the client only counts bytes.
import { Readable } from 'node:stream'
import type { RequestListener } from 'node:http'
import fastJson from 'fast-json-stringify'
import ndjson from 'ndjson'
import { ndjsonDownload } from 'longhaul'
import { toNode } from 'longhaul/node'

const properties = { id: { type: 'integer' }, name: { type: 'string' }, email: { type: 'string' }, active: { type: 'boolean' } }
const schema = { type: 'object', properties }

const head: (res: Parameters<RequestListener>[1]) => void = (res) => { res.writeHead(200, { 'content-type': 'application/x-ndjson' }) }

async function* oneByOne(records: readonly object[]): AsyncGenerator<object> {
  yield* records
}

/** 64 KiB of lines a write, at the speed of the client. */
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

/** The first is the limit. The compiled serialisers know the small records only. */
export function writers(kind: string, records: readonly object[]): Record<string, RequestListener> {
  const small = kind === 'small'
  const record = small ? { record: schema } : {}
  const stringify = small ? fastJson(schema as Parameters<typeof fastJson>[0]) as (record: object) => string : JSON.stringify
  return {
    'hand-tuned loop': handTuned(records, stringify),
    'longhaul, iterable': toNode(ndjsonDownload({ records: () => records, ...record })),
    'longhaul, async generator': toNode(ndjsonDownload({ records: () => oneByOne(records), ...record })),
    'longhaul, no schema': toNode(ndjsonDownload({ records: () => records })),
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
