import { Inject, Injectable } from '@nestjs/common'
import { jsonSchema } from 'longhaul'
import { ndjsonUpload, type BackgroundUpload } from 'longhaul/ndjson'
import { SalesService } from './sales.service.js'
import { Storage } from './storage.js'

@Injectable()
export class OrderImport {
  readonly upload: BackgroundUpload

  constructor(@Inject(SalesService) sales: SalesService, @Inject(Storage) storage: Storage) {
    this.upload = ndjsonUpload({
      schema: jsonSchema<{ sku: string }>({
        type: 'object', required: ['sku'], properties: { sku: { type: 'string' } },
      }),
      write: (orders) => { sales.add(orders) },
      background: { name: 'import-orders', blobs: storage.longhaul.blobs },
    })
  }
}
