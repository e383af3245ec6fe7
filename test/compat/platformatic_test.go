package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

// olderNode gives Node.js 20, which this client does not promise to run on, what it lacks for it.
const olderNode = `
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((a, b) => { resolve = a; reject = b })
  return { promise, resolve, reject }
}
`

// platformaticMember is a member of @platformatic/kafka that reads until it is killed.
const platformaticMember = olderNode + `
import { Consumer } from '@platformatic/kafka'
const [address, topic, options] = process.argv.slice(1)
const c = new Consumer({ clientId: 'child', bootstrapBrokers: [address], heartbeatInterval: 300, ...JSON.parse(options) })
const stream = await c.consume({ topics: [topic], mode: 'committed', autocommit: false, maxWaitTime: 300 })
stream.on('data', () => {})
console.log(JSON.stringify(c.assignments))
`

const platformaticProgram = olderNode + `
import assert from 'node:assert'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { Admin, Consumer, Producer, compressionsAlgorithms, stringDeserializers, stringSerializers } from '@platformatic/kafka'
const [address, childProgram, protocol, version] = process.argv.slice(1)
const name = 'plt-' + protocol
const shared = { groupId: name, sessionTimeout: 6000, rebalanceTimeout: 6000, protocols: [{ name: protocol, version: Number(version) }] }
const common = { clientId: 'plt', bootstrapBrokers: [address], retries: 50, retryDelay: 100 }
const apiIds = error => [error.apiId, ...(error.errors ?? []).flatMap(apiIds), ...(error.cause ? apiIds(error.cause) : [])]
const refused = code => error => { assert(apiIds(error).includes(code), error); return true }
const admin = new Admin(common)
await admin.createTopics({ topics: [name], partitions: 4, replicas: 1 })
await assert.rejects(admin.createTopics({ topics: [name], partitions: 4, replicas: 1 }), refused('TOPIC_ALREADY_EXISTS'))
let sent = [], got = []
async function produce(compression, values, idempotent) {
  const producer = new Producer({ ...common, serializers: stringSerializers, idempotent, acks: -1, compression })
  try {
    await producer.send({ messages: values.map((value, i) => ({ topic: name, key: 'k' + i, value, partition: i % 4, headers: { codec: compression, empty: '' } })) })
    for (const [i, value] of values.entries()) sent.push([i % 4, compression, value].join('|'))
  } finally {
    await producer.close()
  }
}
const hundred = name => Array.from({ length: 100 }, (_, i) => name + ' ' + i)
for (const [codec, { available }] of Object.entries(compressionsAlgorithms)) {
  if (available) await produce(codec, hundred(codec), codec !== 'gzip')
}
await produce('none', ['x'.repeat(900000)], false)
await assert.rejects(produce('none', ['x'.repeat(1100000)], false), refused('MESSAGE_TOO_LARGE'))
class Member {
  last = new Map()
  constructor(options = shared) {
    this.c = new Consumer({ ...common, deserializers: stringDeserializers, heartbeatInterval: 300, ...options })
  }
  async start() {
    this.stream = await this.c.consume({ topics: [name], mode: 'committed', fallbackMode: 'earliest', autocommit: false, maxWaitTime: 300 })
    this.stream.on('data', m => {
      assert.strictEqual(m.headers.get('empty'), '')
      got.push([m.partition, m.headers.get('codec'), m.value].join('|'))
      this.last.set(m.partition, m)
    })
    return this
  }
  owns() { return (this.c.assignments ?? []).flatMap(a => a.partitions).length }
  commit() {
    return this.c.commit({ offsets: [...this.last.values()].map(m => ({ topic: name, partition: m.partition, offset: m.offset + 1n, leaderEpoch: m.leaderEpoch ?? -1 })) })
  }
  async stop() {
    await this.stream.close()
    await this.c.close()
  }
}
async function until(what, good, within = 30000) {
  const end = performance.now() + within
  while (!good()) {
    assert(performance.now() < end, 'not in ' + within + ' ms: ' + what)
    await pause(20)
  }
}
const a = await new Member().start()
await until('a reads all', () => got.length >= sent.length)
assert.deepStrictEqual(got.sort(), sent.sort())
await a.commit()
const b = await new Member().start()
await until('two share', () => a.owns() === 2 && b.owns() === 2)
await b.stop()
await until('a has all again', () => a.owns() === 4, 5000)
function start(options) {
  return spawn(process.execPath, ['--input-type=module', '--eval', childProgram, '--', address, name, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'inherit'] })
}
const child = start(shared)
try {
  await until('the child has its share', () => a.owns() === 2)
} finally {
  child.kill('SIGKILL')
}
await until('a has the share of the child', () => a.owns() === 4, 15000)
await a.commit()
await a.stop()
// The next one goes on where the group has stopped.
sent = []
got = []
await produce('lz4', hundred('new').slice(0, 40), true)
const c = await new Member().start()
await until('c reads what is new', () => got.length >= 40)
assert.deepStrictEqual(got.sort(), sent.sort())
await c.stop()
// A static member that is killed and comes back within its session has its part again, and the others do not notice.
const fixed = { ...shared, groupId: name + '-static', sessionTimeout: 30000, rebalanceTimeout: 30000 }
const one = await new Member({ ...fixed, groupInstanceId: 'one' }).start()
let two = start({ ...fixed, groupInstanceId: 'two' })
try {
  const [part] = await once(two.stdout, 'data')
  await until('a static member has its share', () => one.owns() === 2)
  await pause(1000)
  const { generationId } = one.c
  two.kill('SIGKILL')
  await once(two, 'exit')
  two = start({ ...fixed, groupInstanceId: 'two' })
  const [again] = await once(two.stdout, 'data')
  await pause(1000)
  assert.strictEqual(one.c.generationId, generationId)
  if (protocol === 'roundrobin') assert.strictEqual(String(again), String(part)) // a cooperative one begins with nothing
} finally {
  two.kill('SIGKILL')
}
await one.stop()
await admin.close()
console.log('good')
`

// TestPlatformaticKafka: @platformatic/kafka produces in the codecs it has, and its members join, leave, are killed, commit
// and resume; static ones come back.
func TestPlatformaticKafka(t *testing.T) {
	skipClients(t)
	packages := harness.NodePackages(t, "@platformatic/kafka@2.12.1")
	n := harness.Start(t, quickGroups)
	for protocol, version := range map[string]string{"roundrobin": "1", "cooperative-sticky": "3"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // a session takes seconds to end
			if got := packages.Run(t, platformaticProgram, n.Addr, platformaticMember, protocol, version); strings.TrimSpace(got) != "good" {
				t.Errorf("got %q", got)
			}
		})
	}
}
