import { clearErrors } from './errors.js'
import { foldPanels } from './panels.js'
import { onToken } from './session.js'

// Before the panels, which then show the errors of the new token.
onToken(clearErrors)
foldPanels()

// A file that is dropped beside the panels must not replace the page.
for (const kind of ['dragover', 'drop']) addEventListener(kind, (event) => { event.preventDefault() })
