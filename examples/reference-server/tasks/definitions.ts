import type { AnyTaskDefinition } from 'longhaul'
import type { Users } from '../users/repository.js'
import { checksum } from './checksum.js'
import { exportUsers } from './export-users.js'
import { processData } from './process-data.js'
import { wait } from './wait.js'

/** All that this server does in the background. Web and worker processes share the list. */
export function definitions(users: Users): AnyTaskDefinition[] {
  return [wait, checksum, exportUsers(users), processData]
}
