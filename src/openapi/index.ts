export { commonFields, commonRequestFields } from './common-fields.js'
export { openapi, type DocumentOptions } from './document.js'
export { commonErrorResponses, errorContent, errorSchema, problemSchema } from './common-errors.js'
export { errorResponses } from './errors.js'
export { addParameters, addResponseHeaders, addResponses } from './merge.js'
export { fields, requestFields, responseFields } from './fields.js'
export {
  body, header, operation, parameter, response, schemaObject,
  type BodyOptions, type BodySchema, type Fragment, type OperationOptions, type ParameterOptions, type ResponseOptions,
} from './operation.js'
