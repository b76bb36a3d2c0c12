import { Injectable, Module } from '@nestjs/common'
import { memory } from 'longhaul/memory'

/** The engine, the store and the blobs. A provider, because several others need a part of them. */
@Injectable()
export class Storage {
  readonly longhaul = memory()
}

@Module({ providers: [Storage], exports: [Storage] })
export class StorageModule {}
