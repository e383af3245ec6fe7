package sim

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestLogModel: what leaders may tell of the end of a partition, and what they must not.
func TestLogModel(t *testing.T) {
	op := func(client int, call, back int64, in logOp) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Call: call, Return: back}
	}
	before := op(0, 1, 2, logOp{epoch: 9, base: 239, end: 240})
	told := func(call int64, in logOp) porcupine.Operation {
		in.ask = true
		return op(1, call, call+1, in)
	}
	between := told(4, logOp{epoch: 10, end: 240})
	elected := op(0, 3, 6, logOp{again: true, epoch: 9, base: 240, end: 243}) // made in epoch 9, not committed before epoch 11
	next := op(2, 7, 8, logOp{epoch: 11, base: 243, end: 247})
	for _, c := range []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"one after the other", []porcupine.Operation{before, told(3, logOp{epoch: 9, end: 240})}, true},
		{"a leader has less than one before it had", []porcupine.Operation{before, told(3, logOp{epoch: 10, end: 239})}, false},
		{"a leader that was deposed has less", []porcupine.Operation{before, told(3, logOp{epoch: 8, end: 239})}, true},
		{"a leader has less than it had", []porcupine.Operation{before, told(3, logOp{epoch: 9, end: 239})}, false},
		{"an offset is given out twice", []porcupine.Operation{before, op(2, 3, 4, logOp{epoch: 9, base: 239, end: 241})}, false},
		{"also to one who sends again", []porcupine.Operation{before, op(2, 3, 4, logOp{again: true, epoch: 9, base: 239, end: 241})}, false},
		{"a leader comes back with what another did not have", []porcupine.Operation{before, elected, between, next}, true},
		{"the other is asked late", []porcupine.Operation{before, elected, told(7, logOp{epoch: 10, end: 240})}, true},
		{"and after all know that it is over", []porcupine.Operation{before, elected, next, told(9, logOp{epoch: 11, end: 240})}, false},
		{"a leader acks after its epoch", []porcupine.Operation{before, between, op(0, 6, 7, logOp{epoch: 9, base: 240, end: 243})}, false},
		{"what was sent again was told of before", []porcupine.Operation{before, told(3, logOp{epoch: 10, end: 243}),
			op(0, 5, 6, logOp{again: true, epoch: 9, base: 240, end: 243})}, false},
	} {
		if got := porcupine.CheckOperations(logModel(), c.ops); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
