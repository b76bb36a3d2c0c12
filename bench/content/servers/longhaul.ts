import { content } from 'longhaul/content'
import { folderSource } from 'longhaul/files'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'

listen(toNode(content(folderSource(process.env['BENCH_FOLDER'] as string))))
