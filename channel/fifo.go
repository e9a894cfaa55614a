package channel

import "slices"

// A fifo is a first-in first-out queue that reuses its room.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.head == len(q.items) {
		return v, false
	}
	var zero T
	v, q.items[q.head] = q.items[q.head], zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > 64 { // an idle peer holds little
			q.items = nil
		}
	}
	return v, true
}

// keep drops what f is not true for.
func (q *fifo[T]) keep(f func(T) bool) {
	q.items = slices.DeleteFunc(q.items[q.head:], func(v T) bool { return !f(v) })
	q.head = 0
}
