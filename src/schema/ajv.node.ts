import type * as ajv from 'ajv/dist/2020.js'

/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

/** Replaces ajv.ts in the builds for Node: loads ajv, 90 files, at the first call. */
export function loadAjv(): typeof ajv.Ajv2020 {
  return (nodeRequire('ajv/dist/2020.js') as typeof ajv).Ajv2020
}
