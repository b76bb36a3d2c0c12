import './token-form.js'
import './tasks.js'
import './operator.js'
import './upload.js'
import './download.js'
import './bulk.js'
import './users.js'
import './versions.js'

// A file that misses the drop zone must not take the page's place.
for (const kind of ['dragover', 'drop']) addEventListener(kind, (event) => { event.preventDefault() })
