// The panels of the reference server, beside those of longhaul/console, whose modules they import.
import './requests.js'
import './new-task.js'
import './upload.js'
import './download.js'
import './bulk.js'
import './users.js'
import './versions.js'
