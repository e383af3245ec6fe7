package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

// kafkajsMember is a member of kafkajs that reads until it is killed.
const kafkajsMember = `
import { Kafka, logLevel } from 'kafkajs'
const c = new Kafka({ brokers: [process.argv[1]], logLevel: logLevel.NOTHING }).consumer({ groupId: 'kjs', sessionTimeout: 6000, heartbeatInterval: 300 })
await c.connect()
await c.subscribe({ topics: ['kjs'] })
await c.run({ eachMessage: async () => {} })
`

const kafkajsProgram = `
import assert from 'node:assert'
import { spawn } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import kafkajs from 'kafkajs'
import SnappyCodec from 'kafkajs-snappy'
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
const [address, childProgram] = process.argv.slice(1)
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING, retry: { retries: 8 } })
const admin = kafka.admin()
await admin.connect()
const wanted = { topics: [{ topic: 'kjs', numPartitions: 4, replicationFactor: 1 }] }
assert.strictEqual(await admin.createTopics(wanted), true)
assert.strictEqual(await admin.createTopics(wanted), false, 'a topic was created twice')
let sent = [], got = []
async function produce(name, compression, values, idempotent) {
  const producer = kafka.producer({ idempotent })
  await producer.connect()
  try {
    await producer.send({ topic: 'kjs', acks: -1, compression, messages: values.map((value, i) => ({ key: 'k' + i, value, partition: i % 4, headers: { codec: name, empty: '' } })) })
    for (const [i, value] of values.entries()) sent.push([i % 4, name, value].join('|'))
  } finally {
    await producer.disconnect()
  }
}
const hundred = name => Array.from({ length: 100 }, (_, i) => name + ' ' + i)
await produce('none', CompressionTypes.None, hundred('none'), true)
await produce('gzip', CompressionTypes.GZIP, hundred('gzip'), false)
await produce('snappy', CompressionTypes.Snappy, hundred('snappy'), true)
await produce('large', CompressionTypes.None, ['x'.repeat(900000)], false)
await assert.rejects(produce('larger', CompressionTypes.None, ['x'.repeat(1100000)], false), e => e.type === 'MESSAGE_TOO_LARGE')
class Member {
  owned = []
  next = new Map()
  constructor() {
    this.c = kafka.consumer({ groupId: 'kjs', sessionTimeout: 6000, heartbeatInterval: 300, maxWaitTimeInMs: 300 })
    this.c.on(this.c.events.GROUP_JOIN, e => { this.owned = e.payload.memberAssignment.kjs ?? [] })
  }
  async start() {
    await this.c.connect()
    await this.c.subscribe({ topics: ['kjs'], fromBeginning: true })
    await this.c.run({ autoCommit: false, eachMessage: async ({ partition, message }) => {
      assert.strictEqual(message.headers.empty.toString(), '')
      got.push([partition, message.headers.codec.toString(), message.value.toString()].join('|'))
      this.next.set(partition, String(Number(message.offset) + 1))
    } })
    return this
  }
  commit() {
    return this.c.commitOffsets([...this.next].map(([partition, offset]) => ({ topic: 'kjs', partition, offset })))
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
await until('two share', () => a.owned.length === 2 && b.owned.length === 2)
await b.c.disconnect()
await until('a has all again', () => a.owned.length === 4, 5000)
const child = spawn(process.execPath, ['--input-type=module', '--eval', childProgram, '--', address], { stdio: 'inherit' })
try {
  await until('the child has its share', () => a.owned.length === 2)
} finally {
  child.kill('SIGKILL')
}
await until('a has the share of the child', () => a.owned.length === 4, 15000)
await a.commit()
await a.c.disconnect()
// The next one goes on where the group has stopped.
sent = []
got = []
await produce('new', CompressionTypes.Snappy, hundred('new').slice(0, 40), false)
const c = await new Member().start()
await until('c reads what is new', () => got.length >= 40)
assert.deepStrictEqual(got.sort(), sent.sort())
await c.c.disconnect()
await admin.disconnect()
console.log('good')
`

// TestKafkaJS: kafkajs produces in the codecs it has, and its members join, leave, are killed, commit and resume.
func TestKafkaJS(t *testing.T) {
	skipClients(t)
	packages := harness.NodePackages(t, "kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
	n := harness.Start(t, quickGroups)
	if got := packages.Run(t, kafkajsProgram, n.Addr, kafkajsMember); strings.TrimSpace(got) != "good" {
		t.Errorf("got %q", got)
	}
}
