export { csv, type CsvOptions } from './csv.js'
export type { CsvColumn } from './header.js'
