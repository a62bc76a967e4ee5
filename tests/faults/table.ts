// The fault matrix (rows R1 to R33): what each row promises, the scripts that prove it, and what is not proven here and
// why. `run.ts` runs it.

export interface Run {
  /** From the root. A `.test.ts` file runs under `bun test`. */
  readonly script: string
  readonly args?: readonly string[]
  /** Arguments of the short form; null: the short form leaves it out. */
  readonly short: readonly string[] | null
}

export interface FaultRow {
  readonly row: `R${number}`
  readonly fault: string
  readonly aim: string
  readonly runs: readonly Run[]
  /** What of it runs in every `npm test`. */
  readonly inTests?: readonly string[]
  /** What of the row no script shows, and why. */
  readonly missing?: string
}

const script = (name: string, args: readonly string[], short: readonly string[] | null = args): Run => ({
  script: `tests/faults/${name}.ts`,
  args,
  short,
})
/** Takes long enough in `npm test` as it is, and needs nothing that a script would add. */
const tests = (...files: string[]): readonly Run[] =>
  files.map((file) => ({ script: `tests/${file}.test.ts`, short: [] }))

export const FAULT_ROWS: readonly FaultRow[] = [
  {
    row: 'R1',
    fault: '`kill -9` of the gateway at random moments',
    aim: 'lost 0, doubled 0, what had begun for a client recorded, ready within 3 s',
    runs: [script('gateway/kill', ['50'], ['3'])],
    inTests: ['tests/log/spool/crash.test.ts'],
  },
  {
    row: 'R2',
    fault: '`kill -9` at each failpoint',
    aim: 'lost 0, doubled 0 at each',
    runs: [script('failpoints', ['--kills', '20'], ['--kills', '1', 'embedded'])],
    inTests: ['tests/faults/failpoints.test.ts'],
  },
  {
    row: 'R3',
    fault: '`kill -9` of the gateway while the broker is away',
    aim: 'lost 0, doubled 0',
    runs: [script('brokers/broker-kill', ['--kills', '10'], ['--kills', '2'])],
  },
  {
    row: 'R4',
    fault: 'SIGTERM with live streams that end within the drain',
    aim: 'streams cut 0, exit 0',
    runs: [script('gateway/shutdown', ['200', '2', '30'], ['20', '1'])],
  },
  {
    row: 'R5',
    fault: 'SIGTERM with streams longer than the drain',
    aim: 'silent cuts 0',
    runs: [],
    missing: 'run by R4, the same way',
  },
  {
    row: 'R6',
    fault: 'the gateway is stopped for 30 s and goes on; it is ended by the OOM killer',
    aim: 'lost 0, doubled 0, nothing spent from an expired lease; after the OOM killer as R1',
    runs: [
      script('gateway/pause', ['--seconds', '30', '--times', '3'], ['--seconds', '3', '--times', '1']),
      // Longer than a lease is good: what it held is given to others, and spent by them.
      script('budgets/stopped', [], null),
      script('gateway/oom', ['--times', '20'], ['--times', '2']),
    ],
    inTests: ['tests/state/budgets/budgets.test.ts'],
  },
  {
    row: 'R7',
    fault: 'the broker is stopped for a minute',
    aim: 'inference failed 0, at most 50 ms more; writes 504 within 5 s and never carried out; lost 0, doubled 0',
    runs: [script('brokers/broker', ['60'], ['10'])],
  },
  {
    row: 'R8',
    fault: 'the broker stands still, swallows everything, or refuses connections',
    aim: 'inference failed 0, lost 0, doubled 0, writes answered within 6 s',
    runs: [script('brokers/broker-network', ['--seconds', '60', 'r8'], ['--seconds', '5', 'r8'])],
  },
  {
    row: 'R9',
    fault: 'the way to the broker is slow, throttled, reset, half closed',
    aim: 'inference failed 0, lost 0, doubled 0',
    runs: [script('brokers/broker-network', ['--seconds', '30', 'r9'], ['--seconds', '5', 'r9'])],
  },
  {
    row: 'R10',
    fault: "the broker's answers are dropped after the append",
    aim: 'lost 0, doubled 0 after repeats are dropped by id',
    runs: [
      script('brokers/broker-network', ['--seconds', '30', 'r10'], ['--seconds', '5', 'r10']),
      script('control/lost-acks', ['--commands', '300'], ['--commands', '50']),
    ],
    inTests: ['tests/faults/control.test.ts', 'tests/log/sender/ship.test.ts'],
  },
  {
    row: 'R11',
    fault: 'the leader of three brokers is killed; an unclean election; a log that lost records',
    aim: 'lost 0, applied twice 0; a loss is detected, within 30 s, and can be restored',
    runs: [
      script('brokers/three-brokers', ['--kills', '6'], ['--kills', '1']),
      script('control/leader', ['--commands', '20000'], ['--commands', '1000']),
      script('brokers/unclean-election', ['--rounds', '3'], ['--rounds', '1']),
      script('control/lost-log', []),
    ],
  },
  {
    row: 'R12',
    fault: 'started while the broker is away',
    aim: 'serves from a snapshot what was last known and refuses writes of every kind; does not serve without one',
    runs: [script('gateway/start-without-broker', ['--starts', '5'], ['--starts', '1'])],
    inTests: ['tests/state/live/live-start.test.ts'],
  },
  {
    row: 'R13',
    fault:
      'Postgres is stopped; connections to it are refused, swallowed, reset, ' +
      'half closed, throttled, their answers lost',
    aim: 'inference failed 0; /ready 503; missing 0, doubled 0',
    runs: [
      script('stores/postgres', ['60'], ['5']),
      script('stores/postgres-network', ['--seconds', '20'], ['--seconds', '5']),
    ],
    inTests: ['tests/projections/faults.test.ts'],
  },
  {
    row: 'R14',
    fault:
      'Postgres is far away or locked; the projection worker is killed in the midst of ' +
      'transactions; tables made anew, and the database wiped',
    aim:
      'inference failed 0, missing 0, doubled 0, every table equal, after a ' +
      'wipe too; how long it takes to make them anew',
    runs: [
      script('stores/postgres-slow', ['--seconds', '20'], ['--seconds', '5']),
      script('stores/worker-kill', ['20', '20000'], ['3', '2000', 'embedded']),
      ...tests('faults/stores/several-workers'),
    ],
    inTests: ['tests/faults/stores/worker-kill.test.ts', 'tests/faults/stores/several-workers.test.ts'],
  },
  {
    row: 'R15',
    fault: 'Redis is away, stands still, is emptied, answers garbage',
    aim: 'failed 0, answers to something else 0, at most 50 ms more',
    runs: [script('stores/redis', ['--seconds', '15'], ['--seconds', '3'])],
    inTests: ['tests/inference/limits/shared-limits.test.ts'],
  },
  {
    row: 'R16',
    fault: 'the disk of the spool is full, or turns read-only',
    aim: 'what is answered complete is recorded; serves again when there is room',
    runs: [
      script('disks/disk-full', ['--rounds', '5'], ['--rounds', '1']),
      script('disks/disk-read-only', ['--rounds', '5'], ['--rounds', '1']),
    ],
    inTests: ['tests/log/spool/disk.test.ts'],
  },
  {
    row: 'R17',
    fault: 'fdatasync fails, writes are short',
    aim: 'lost 0, told too early 0, the same file never synced again',
    runs: [script('disks/disk-errors', ['--seconds', '15'], ['--seconds', '3'])],
    inTests: [
      'tests/log/spool/durability.test.ts',
      'tests/log/spool/disk.test.ts',
      'tests/log/segments/writer.test.ts',
    ],
    missing:
      'no shim under the process: Bun makes system calls by itself, so the faults are injected at the port of files',
  },
  {
    row: 'R18',
    fault: 'bit flips and torn tails in spool, snapshot and read models',
    aim: 'started every time; what is damaged is counted and set aside, all else salvaged; wrong state 0',
    runs: [
      script('disks/damage', ['--rounds', '100'], ['--rounds', '8']),
      script('disks/damage-spool', ['--rounds', '30'], ['--rounds', '3']),
      ...tests('projections/damage'),
    ],
    inTests: [
      'tests/log/segments/writer.test.ts',
      'tests/log/spool/open.test.ts',
      'tests/state/restore/restore.test.ts',
      'tests/projections/damage.test.ts',
    ],
    missing: 'the database of the embedded log itself is not damaged: there is no second copy to compare it with',
  },
  {
    row: 'R19',
    fault: 'a slow disk',
    aim: 'lost 0, doubled 0, everybody answered',
    runs: [],
    missing:
      'run by R17, the same way. Writes of the spool are made on the serving thread, so a disk that ' +
      'takes 200 ms for each holds everybody up for that long, and a thread that stands still is ' +
      'not taken for overload: only a sync is made beside it',
  },
  {
    row: 'R20',
    fault: 'slow-loris, silent and idle clients',
    aim: 'closed by our own deadlines',
    runs: [script('clients/slow-clients', ['500'], ['50']), ...tests('http/slow-clients')],
  },
  {
    row: 'R21',
    fault: '100 readers that never read a stream of 64 MB',
    aim: 'RSS grows by less than 100 MB; every upstream held back and let go',
    runs: [script('clients/readers', ['100'], null)],
  },
  {
    row: 'R22',
    fault: 'clients leave at a random byte',
    aim: 'upstreams left running 0; an outcome for each; closed within 100 ms',
    runs: [script('clients/leaving', ['2000'], ['200'])],
    inTests: ['tests/inference/request/leaving.test.ts'],
  },
  {
    row: 'R23',
    fault: 'an upstream hangs while connecting, before its head, in its stream, after its last piece',
    aim:
      'told within 500 ms after the deadline, never before it; sockets leaked 0; every cell ' +
      'of the matrix right: status, code, body, calls made, outcome',
    runs: [
      script('upstreams/hangs', ['40'], ['4']),
      script('upstreams/swallowed', ['--requests', '1000'], ['--requests', '300']),
      script('upstreams/upstream', [], ['before headers']),
    ],
    inTests: ['tests/inference/attempt/faults.test.ts', 'tests/inference/attempt/deadlines.test.ts'],
    missing:
      'a connection that the kernel is still opening has no handle by which it could be closed: it goes when ' +
      'the kernel gives up (127 s) or somebody answers. There is a bound on how many',
  },
  {
    row: 'R24',
    fault: 'an upstream resets, ends early, tears characters and lines',
    aim: 'misread 0, silently truncated 0; every cell of the matrix that R23 runs right',
    runs: [script('upstreams/torn-streams', ['1'], ['7'])],
    inTests: ['tests/inference/attempt/faults.test.ts', 'tests/lib/text/sse.test.ts'],
  },
  {
    row: 'R25',
    fault: 'an upstream sends garbage, a line without end, a stream without end',
    aim: '`upstream_error`; RSS grows by less than 456 MB for two at once; no second without an answer; alive',
    runs: [script('upstreams/garbage', ['20'], ['4'])],
    inTests: ['tests/inference/attempt/faults.test.ts'],
  },
  {
    row: 'R26',
    fault: 'a gzip bomb of an upstream',
    aim: 'cut before 72 MB are decoded',
    runs: [],
    inTests: ['tests/inference/attempt/faults.test.ts'],
    missing: 'run by R25, the same way',
  },
  {
    row: 'R27',
    fault: 'a storm of failures, a flapping provider, all down, strange Retry-After',
    aim: 'failover, breaker, retry budget hold',
    runs: [
      // A provider that fails three times of ten is left alone after three and a half seconds.
      script('upstreams/storm', ['--seconds', '10'], ['--seconds', '7']),
      ...tests(
        'inference/attempt/health',
        'inference/attempt/failover',
        'state/health/book',
        'state/health/book.property',
      ),
    ],
  },
  {
    row: 'R28',
    fault: 'ten times of what the gateway can',
    aim: 'goodput flat',
    runs: [script('clients/overload', ['15'], null)],
    inTests: ['tests/http/overload.test.ts'],
  },
  {
    row: 'R29',
    fault: 'the wall clock jumps',
    aim: 'inference failed 0, lost 0, doubled 0, both states equal; deadlines and windows of budgets early or late 0',
    runs: [script('gateway/clock', ['--seconds', '10'], ['--seconds', '2'])],
  },
  {
    row: 'R30',
    fault: 'names that do not resolve, certificates that do not hold',
    aim: '`upstream_error`, fallback, nothing in plain text',
    runs: [
      script('upstreams/plain-text', ['--rounds', '5'], ['--rounds', '1']),
      script('upstreams/upstream', ['TLS']),
      ...tests('lib/http-client/dialer', 'lib/http-client/dialer-addresses'),
    ],
  },
  {
    row: 'R31',
    fault: 'an hour at 60 % load with a random fault a minute',
    aim: 'lost 0, doubled 0, RSS and descriptors flat',
    runs: [script('gateway/soak', ['60'], ['1'])],
  },
  {
    row: 'R32',
    fault: '`kill -9` of three instances and their brokers, and a start while the brokers are away',
    aim:
      'revoked, killed, capped, forced, limited, frozen, repointed, signed out: as before the crash; issued keys work, ' +
      'unknown ones are 503, hard budgets grant nothing',
    runs: [script('gateway/start-away', ['--rounds', '3'], ['--rounds', '1'])],
    inTests: ['tests/state/restore/stored-tail.test.ts'],
  },
  {
    row: 'R33',
    fault: 'instances are restarted one after the other, under a load balancer that follows `/ready` every second',
    aim: 'failed 0 of 10,000 for clients that retry only a refused connection',
    runs: [script('gateway/rolling-restart', [], ['--requests', '4000'])],
    inTests: ['tests/composition/warm-up.test.ts', 'tests/http/listeners.test.ts'],
  },
]
