// Defines the `nodeRequire` of src/**/*.node.ts for CommonJS (tsup.config.ts).
import { createRequire } from 'node:module'

export const nodeRequire = createRequire(__filename)
