export {
  verifyCallback, type CallbackHeaders, type CallbackMessage, type VerifyOptions,
} from '../client/verify-callback.js'
export { callbacks, type CallbackEvent } from './callbacks.js'
export { httpSender } from './http-sender.js'
export type { CallbackOptions, CallbackReply, CallbackRequest, CallbackSender } from './options.js'
