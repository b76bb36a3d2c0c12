export { describe } from '../http/exchange.js'
export { openapi } from './document.js'
export {
  addResponseHeaders, body, header, operation, parameter, response, type Fragment,
  type OperationOptions,
} from './operation.js'
export { errorResponses, responseHeaders } from './responses.js'
