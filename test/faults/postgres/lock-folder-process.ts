// A process that locks a folder, and has it until it ends: node lock-folder-process.ts <folder>.
import { lockFolder } from 'longhaul/postgres'

const [, , folder = ''] = process.argv
await lockFolder(folder).then(
  () => { console.log('locked\n') },
  (error: unknown) => { console.log(`rejected ${(error as Error).message}\n`) },
)
setInterval(() => undefined, 2 ** 30)
