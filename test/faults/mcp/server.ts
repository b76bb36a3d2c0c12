// An MCP server that is killed: node server.ts DATABASE_URL NAME.
import { mcpWork, serveMcp } from '../../http/mcp/kit.js'
import { openDatabase } from '../../servers/open-database.js'

const [database = '', name = ''] = process.argv.slice(2)
const { parts } = openDatabase(database, { name, leaseMs: 1000 })
const { mcp } = mcpWork({ ...parts, onError: (error) => { console.error(error) } })
const { url } = await serveMcp(mcp)
console.log(`ready at ${url}`)
