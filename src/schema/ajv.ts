import { Ajv2020 } from 'ajv/dist/2020.js'

/**
 * Returns ajv's class for JSON Schema 2020-12. Application bundlers follow this import. The builds
 * for Node replace this file with ajv.node.ts, which loads ajv at the first call.
 */
export function loadAjv(): typeof Ajv2020 {
  return Ajv2020
}
