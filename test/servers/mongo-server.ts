// A small server of the MongoDB wire protocol (OP_MSG) for one collection in memory, because no
// package of the registries
// contains a MongoDB. Mongoose and its driver are real, so the values that they return are, too.
import { createServer, type Socket } from 'node:net'
import mongoose from 'mongoose'
import { listen } from '../kit/listen.js'

const { BSON } = mongoose.mongo
type Doc = Record<string, unknown>

/** Bytes of the header of a message, its flags and the kind of its first section. */
const HEAD = 21
const OP_MSG = 2013

export interface MongoServer { readonly url: string, close(): Promise<unknown> }

export async function startMongo(): Promise<MongoServer> {
  const docs = new Map<string, Doc>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let rest = Buffer.alloc(0)
    socket.on('data', (more) => {
      rest = Buffer.concat([rest, more])
      while (rest.length >= 4 && rest.length >= rest.readInt32LE(0)) {
        const message = rest.subarray(0, rest.readInt32LE(0))
        rest = rest.subarray(message.length)
        socket.write(answer(message, run(commandOf(message), docs)))
      }
    })
    socket.on('error', () => undefined)
  })
  const { port } = await listen(server)
  return {
    // With the stable API, the driver says hello by OP_MSG too.
    url: `mongodb://127.0.0.1:${port}/test?directConnection=true`,
    close: () => new Promise((resolve) => {
      for (const socket of sockets) socket.destroy()
      server.close(resolve)
    }),
  }
}

/** Reads the sections of a message: one document, and lists of documents. */
function commandOf(message: Buffer): Doc {
  let at = HEAD
  const command = BSON.deserialize(message.subarray(at, at += message.readInt32LE(at)))
  while (at < message.length) {
    const end = ++at + message.readInt32LE(at)
    const nameEnd = message.indexOf(0, at + 4)
    const list: Doc[] = []
    const name = message.toString('utf8', at + 4, nameEnd)
    for (at = nameEnd + 1; at < end;) list.push(BSON.deserialize(message.subarray(at, at += message.readInt32LE(at))))
    command[name] = list
  }
  return command
}

function answer(message: Buffer, reply: Doc): Buffer {
  const body = BSON.serialize(reply)
  const head = Buffer.alloc(HEAD)
  head.writeInt32LE(HEAD + body.length, 0)
  head.writeInt32LE(message.readInt32LE(4), 8)
  head.writeInt32LE(OP_MSG, 12)
  return Buffer.concat([head, body])
}

function run(command: Doc, docs: Map<string, Doc>): Doc {
  if ('insert' in command) return insert(command['documents'] as Doc[], command['ordered'] !== false, docs)
  if ('findAndModify' in command) return findAndModify(command, docs)
  if ('find' in command) {
    const found = docs.get(keyOf(command['filter'] as Doc))
    return { ok: 1, cursor: { id: BSON.Long.ZERO, ns: 'test.users', firstBatch: found ? [found] : [] } }
  }
  if ('update' in command) return { ok: 1, n: 0, nModified: 0 }
  return {
    ok: 1,
    isWritablePrimary: true,
    helloOk: true,
    maxWireVersion: 25,
    minWireVersion: 0,
    maxBsonObjectSize: 16_777_216,
    maxMessageSizeBytes: 48_000_000,
    maxWriteBatchSize: 100_000,
  }
}

const keyOf = ({ _id }: Doc): string => String(_id)

function insert(documents: readonly Doc[], ordered: boolean, docs: Map<string, Doc>): Doc {
  const writeErrors: Doc[] = []
  let n = 0
  for (const [index, doc] of documents.entries()) {
    if (docs.has(keyOf(doc))) {
      writeErrors.push({
        index,
        code: 11000,
        keyPattern: { _id: 1 },
        keyValue: { _id: doc['_id'] },
        errmsg: 'E11000 duplicate key error',
      })
      if (ordered) break
      continue
    }
    docs.set(keyOf(doc), doc)
    n++
  }
  return { ok: 1, n, ...writeErrors.length > 0 && { writeErrors } }
}

function findAndModify({ query, update, remove }: Doc, docs: Map<string, Doc>): Doc {
  const key = keyOf(query as Doc)
  const old = docs.get(key)
  if (old === undefined) return { ok: 1, value: null, lastErrorObject: { n: 0, updatedExisting: false } }
  if (remove === true) {
    docs.delete(key)
    return { ok: 1, value: old, lastErrorObject: { n: 1 } }
  }
  const changed = { ...old, ...(update as { $set?: Doc }).$set }
  docs.set(key, changed)
  return { ok: 1, value: changed, lastErrorObject: { n: 1, updatedExisting: true } }
}
