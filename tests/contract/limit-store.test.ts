import { LocalLimitStore } from '../../src/inference/limits-local.ts'
import { limitStoreContract } from './limit-store.ts'

limitStoreContract('in this process', { open: (nowMs) => new LocalLimitStore(nowMs), runs: 500 })
