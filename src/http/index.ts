export { readBytes, readJson } from './body/body.js'
export { compileJson } from './body/compile-json.js'
export { negotiate } from './fields/accept.js'
export { parsePrefer, type Preferences } from './fields/prefer.js'
