// The same bytes as files of a task: its record is read, its owner checked, and the blobs are in a folder.
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createTasks, defineTask, taskEndpoints } from 'longhaul'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'

const root = process.env['BENCH_FOLDER'] as string

const all = defineTask({
  name: 'all',
  files: true,
  run: async (_input, { files }) => {
    for (const name of await readdir(root)) {
      if (name.endsWith('.bin')) await files.write(name, createReadStream(join(root, name)))
    }
    return { message: 'done' }
  },
})
const blobs = new FolderBlobs(join(root, 'blobs'))
const tasks = createTasks({ ...memory(), blobs, definitions: [all] })
const task = await tasks.submit(all, {}, { id: 'all' })
const end = await task.wait({ timeoutMs: 60_000 })
if (end?.status !== 'completed') throw new Error('The files were not written')

const { files } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const serve = toNode(files)
listen((req, res) => {
  req.url = `/tasks/all/files${req.url}`
  serve(req, res)
})
