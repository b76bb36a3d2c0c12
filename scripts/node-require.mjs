// Defines the `nodeRequire` of the files *.node.ts for the ES modules for Node (tsup.config.ts).
import { createRequire } from 'node:module'

export const nodeRequire = createRequire(import.meta.url)
