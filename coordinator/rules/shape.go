package rules

// shaped checks what `quota` says of shaping: it is what a leaky bucket can do and the
// other algorithms cannot. A misspelt algorithm has its own message.
func (w *walk) shaped(shape, algorithm field, l *Limit) {
	switch {
	case !l.Shape || l.Algorithm == LeakyBucket:
	case algorithm.value == nil:
		w.problem(shape.value, shape.trail, "`shape` needs `algorithm: leaky_bucket` beside it; without one the algorithm is token_bucket, which lets a burst through at once")
	case contains(algorithmNames, algorithm.value.Value):
		w.problem(shape.value, shape.trail, "`shape` needs `algorithm: leaky_bucket`; %s has no queue to delay requests in", quoted(l.Algorithm.String()))
	}
}
