package metadata

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTreeIsAMapThatKeepsItsPast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, model := newOrderedTree[int, int](), map[int]int{}
		var past []Tree[int, int]
		var pastModels []map[int]int
		key := rapid.IntRange(0, 60)
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if rapid.Bool().Draw(t, "delete") {
				tree = tree.without(k)
				delete(model, k)
			} else {
				tree = tree.with(k, i)
				model[k] = i
			}
			past, pastModels = append(past, tree), append(pastModels, maps.Clone(model))
			checkBalance(t, tree.root)
		}
		for i, old := range past {
			checkTree(t, old, pastModels[i])
		}
		from := key.Draw(t, "from")
		var want []int
		for _, k := range slices.Sorted(maps.Keys(model)) {
			if k >= from {
				want = append(want, k)
			}
		}
		var got []int
		for k := range tree.From(from) {
			got = append(got, k)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("From(%d) = %v, want %v", from, got, want)
		}
	})
}

func checkTree(t *rapid.T, tree Tree[int, int], model map[int]int) {
	if tree.Len() != len(model) {
		t.Fatalf("Len = %d, want %d", tree.Len(), len(model))
	}
	var keys []int
	for k, v := range tree.All() {
		keys = append(keys, k)
		if got, ok := tree.Get(k); !ok || got != v || v != model[k] {
			t.Fatalf("key %d: Get = %d, %v, All = %d, want %d", k, got, ok, v, model[k])
		}
	}
	if !slices.Equal(keys, slices.Sorted(maps.Keys(model))) {
		t.Fatalf("keys %v", keys)
	}
}

func checkBalance(t *rapid.T, n *node[int, int]) {
	if n == nil {
		return
	}
	l, r := n.left.len()+1, n.right.len()+1
	if l > treeDelta*r || r > treeDelta*l || n.size != l+r-1 {
		t.Fatalf("node %d has subtrees of weight %d and %d, size %d", n.key, l, r, n.size)
	}
	checkBalance(t, n.left)
	checkBalance(t, n.right)
}

func TestTreeIterationStops(t *testing.T) {
	tree := newOrderedTree[int, int]()
	for i := range 100 {
		tree = tree.with(i, i)
	}
	n := 0
	for k := range tree.All() {
		if n++; k == 41 {
			break
		}
	}
	if n != 42 {
		t.Errorf("saw %d keys, want 42", n)
	}
}
