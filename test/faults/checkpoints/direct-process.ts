// A web process for direct uploads: node direct-process.ts <url> <folder>.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { ndjsonUpload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { BATCH, openSite, type Row } from './work.js'

const [, , url = '', folder = ''] = process.argv
const { engine, blobs, rows } = openSite(url, folder)

/** `exactly` stores the cursor in the transaction of the rows. The names are those of the rows. */
function importer(name: string, exactly: boolean) {
  let batches = 0
  return ndjsonUpload<Row>({
    batchSize: BATCH,
    async write(records, { cursor, uploadId }) {
      if (exactly) console.log(`upload ${String(uploadId)}`)
      await rows.write(uploadId ?? name, records.map(({ n }) => n), cursor())
      // Most kills find the process here: the rows are written, and longhaul has not saved the position.
      console.log(`wrote ${++batches}`)
      await sleep(10)
    },
    ...exactly && { resume: ({ uploadId }) => rows.cursorOf(uploadId) },
    background: { name, blobs },
  })
}

const [once, atLeastOnce] = [importer('once', true), importer('at-least-once', false)]
const tasks = createTasks({ ...engine, definitions: [once.task, atLeastOnce.task], worker: false })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const server = createServer(toNode(router({
  'POST /once': once.handler(endpoints), 'POST /at-least-once': atLeastOnce.handler(endpoints),
})))
server.listen(0, '127.0.0.1', () => {
  console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`)
})
