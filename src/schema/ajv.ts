import { Ajv2020 } from 'ajv/dist/2020.js'

/** Returns ajv's class for JSON Schema 2020-12. */
export function loadAjv(): typeof Ajv2020 {
  return Ajv2020
}
