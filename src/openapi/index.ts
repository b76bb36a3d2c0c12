export { describe } from '../http/exchange.js'
export { openapi, type DocumentOptions } from './document.js'
export { errorResponses } from './errors.js'
export { fields } from './fields.js'
export { addParameters, addResponseHeaders, addResponses } from './merge.js'
export {
  body, header, operation, parameter, response, type BodyOptions, type BodySchema, type Fragment,
  type OperationOptions, type ParameterOptions, type ResponseOptions,
} from './operation.js'
