export { azureFormat, type AzureFormatOptions } from './azure-format.js'
