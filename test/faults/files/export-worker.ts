// A worker that exports: node export-worker.ts KIND URL NAME FOLDER. SIGTERM closes it.
import { createTasks } from 'longhaul'
import { exporting } from './export-work.js'
import { openParts } from '../kit/parts.js'

const [kind = '', url = '', name = '', folder = ''] = process.argv.slice(2)
const { parts, close } = openParts(kind, { url, name, folder })
const work = exporting((event) => process.send?.(event))
const tasks = createTasks({ ...parts, definitions: [work] })
process.once('SIGTERM', () => {
  void tasks.close({ drainMs: 20_000 }).then(close).then(() => process.exit())
})
process.on('disconnect', () => process.exit())
