export { consolePage, type ConsolePageOptions, type ConsolePanel } from './page.js'
export { taskConsole, type TaskConsoleOptions } from './task-console.js'
