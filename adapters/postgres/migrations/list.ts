import { entries } from './001-entries.js'
import { installation } from './002-installation.js'
import { blobs } from './003-blobs.js'
import { owners } from './005-owners.js'
import { taskRows } from './006-task-rows.js'
import type { Migration } from './migration.js'

/**
 * All migrations, in order. A new one is added at the end, with the next number. Number 4 made
 * tables of an unpublished version, which are in use no more.
 */
export const MIGRATIONS: readonly Migration[] = [
  entries, installation, blobs, owners, taskRows,
]
