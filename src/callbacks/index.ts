export { Courier } from './courier.js'
export type { CallbackEvent } from './event.js'
export { checkOptions, KNOWN as CALLBACK_OPTIONS, type CallbackOptions } from './options.js'
export type { CallbackReply, CallbackRequest, CallbackSender, SendFault } from './sender.js'
