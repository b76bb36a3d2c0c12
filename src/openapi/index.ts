export { describe } from '../http/exchange.js'
export { openapi, type DocumentOptions } from './document.js'
export {
  addParameters, addResponseHeaders, addResponses, body, header, operation, parameter, response,
  type BodyOptions, type BodySchema, type Fragment, type OperationOptions, type ParameterOptions,
  type ResponseOptions,
} from './operation.js'
export { errorResponses, fields } from './responses.js'
