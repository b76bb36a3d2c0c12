export { router } from './router.js'
