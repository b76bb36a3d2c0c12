import fastJson from 'fast-json-stringify'

/**
 * Returns fast-json-stringify's function. Application bundlers follow this import. The builds for
 * Node replace this file with fast-json.node.ts, which loads the package at the first call.
 */
export function loadFastJson(): typeof fastJson {
  return fastJson
}
