// Defines the `nodeRequire` of src/**/*.node.ts for the ES modules for Node (tsup.config.ts).
import { createRequire } from 'node:module'

export const nodeRequire = createRequire(import.meta.url)
