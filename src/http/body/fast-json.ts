import fastJson from 'fast-json-stringify'

/**
 * Application bundlers follow this import. Builds for Node replace this file with
 * fast-json.node.ts.
 */
export function loadFastJson(): typeof fastJson {
  return fastJson
}
