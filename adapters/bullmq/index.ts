export { BullMQQueue, type BullMQQueueOptions } from './queue.js'
