package metadata

import (
	"cmp"
	"iter"
)

// Tree is an immutable sorted map. Setting or deleting a key copies the nodes on its way from the root, so that a map
// and its successor share everything else. Reading needs no lock.
//
// It is a weight-balanced tree (Adams; the parameters are those that Hirai and Yamamoto proved in "Balancing
// weight-balanced trees", 2011).
type Tree[K, V any] struct {
	root    *node[K, V]
	compare func(a, b K) int
}

type node[K, V any] struct {
	left, right *node[K, V]
	size        int
	key         K
	value       V
}

const (
	treeDelta = 3 // a subtree has at most so many times the weight of its sibling
	treeRatio = 2 // decides between a single and a double rotation
)

func newTree[K, V any](compare func(a, b K) int) Tree[K, V] { return Tree[K, V]{compare: compare} }

func newOrderedTree[K cmp.Ordered, V any]() Tree[K, V] { return newTree[K, V](cmp.Compare[K]) }

func (n *node[K, V]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

// Len returns the number of keys.
func (t Tree[K, V]) Len() int { return t.root.len() }

// Get returns the value of a key.
func (t Tree[K, V]) Get(key K) (V, bool) {
	for n := t.root; n != nil; {
		switch c := t.compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	var none V
	return none, false
}

// All yields keys and values in ascending order of key.
func (t Tree[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.each(yield) }
}

// From yields the keys at and after a key, with their values, in ascending order.
func (t Tree[K, V]) From(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.from(key, t.compare, yield) }
}

func (n *node[K, V]) each(yield func(K, V) bool) bool {
	return n == nil || n.left.each(yield) && yield(n.key, n.value) && n.right.each(yield)
}

func (n *node[K, V]) from(key K, compare func(a, b K) int, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if compare(n.key, key) < 0 {
		return n.right.from(key, compare, yield)
	}
	return n.left.from(key, compare, yield) && yield(n.key, n.value) && n.right.each(yield)
}

// with returns the map with a key set.
func (t Tree[K, V]) with(key K, value V) Tree[K, V] {
	t.root = t.root.with(key, value, t.compare)
	return t
}

// without returns the map with a key deleted.
func (t Tree[K, V]) without(key K) Tree[K, V] {
	t.root = t.root.without(key, t.compare)
	return t
}

func join[K, V any](left *node[K, V], key K, value V, right *node[K, V]) *node[K, V] {
	return &node[K, V]{left: left, right: right, size: left.len() + right.len() + 1, key: key, value: value}
}

// balance joins two trees of which one has gained or the other has lost a single key since they were balanced.
func balance[K, V any](left *node[K, V], key K, value V, right *node[K, V]) *node[K, V] {
	l, r := left.len()+1, right.len()+1
	switch {
	case r > treeDelta*l:
		if right.left.len()+1 < treeRatio*(right.right.len()+1) {
			return join(join(left, key, value, right.left), right.key, right.value, right.right)
		}
		m := right.left
		return join(join(left, key, value, m.left), m.key, m.value, join(m.right, right.key, right.value, right.right))
	case l > treeDelta*r:
		if left.right.len()+1 < treeRatio*(left.left.len()+1) {
			return join(left.left, left.key, left.value, join(left.right, key, value, right))
		}
		m := left.right
		return join(join(left.left, left.key, left.value, m.left), m.key, m.value, join(m.right, key, value, right))
	}
	return join(left, key, value, right)
}

func (n *node[K, V]) with(key K, value V, compare func(a, b K) int) *node[K, V] {
	if n == nil {
		return join[K, V](nil, key, value, nil)
	}
	switch c := compare(key, n.key); {
	case c < 0:
		return balance(n.left.with(key, value, compare), n.key, n.value, n.right)
	case c > 0:
		return balance(n.left, n.key, n.value, n.right.with(key, value, compare))
	}
	return join(n.left, key, value, n.right)
}

func (n *node[K, V]) without(key K, compare func(a, b K) int) *node[K, V] {
	if n == nil {
		return nil
	}
	switch c := compare(key, n.key); {
	case c < 0:
		left := n.left.without(key, compare)
		if left == n.left {
			return n
		}
		return balance(left, n.key, n.value, n.right)
	case c > 0:
		right := n.right.without(key, compare)
		if right == n.right {
			return n
		}
		return balance(n.left, n.key, n.value, right)
	case n.left == nil:
		return n.right
	case n.right == nil:
		return n.left
	}
	first := n.right
	for first.left != nil {
		first = first.left
	}
	return balance(n.left, first.key, first.value, n.right.withoutFirst())
}

func (n *node[K, V]) withoutFirst() *node[K, V] {
	if n.left == nil {
		return n.right
	}
	return balance(n.left.withoutFirst(), n.key, n.value, n.right)
}
