package check

import "github.com/quorate/quorate/coordinator/quota"

// bucket is the exact central token bucket of a limit, with its level times
// the period. It starts full and knows no floor.
type bucket struct {
	limit quota.Capacity
	full  wide
	level wide
	at    quota.Micros
	begun bool
}

func newBucket(limit quota.Capacity) bucket {
	if limit.Rate.Per <= 0 {
		// Without a period there is no rate: the burst is all there ever is.
		limit.Rate = quota.Rate{Tokens: 0, Per: 1}
	}
	full := product(int64(limit.Burst), int64(limit.Rate.Per))
	return bucket{limit: limit, full: full, level: full}
}

// advance refills to now. Time that goes back adds nothing and is forgotten,
// which can only lower the level.
func (b *bucket) advance(now quota.Micros) {
	if !b.begun {
		b.begun, b.at = true, now
		return
	}
	if now <= b.at {
		return
	}
	b.level = b.level.plus(product(int64(b.limit.Rate.Tokens), int64(now-b.at)))
	if b.full.less(b.level) {
		b.level = b.full
	}
	b.at = now
}

// GiveBack counts what is given back at the time at, as far as there is room for it.
func (b *bucket) GiveBack(at quota.Micros, cost quota.Tokens) {
	b.advance(at)
	b.level = b.level.plus(b.costOf(cost))
	if b.full.less(b.level) {
		b.level = b.full
	}
}

func (b *bucket) costOf(cost quota.Tokens) wide {
	return product(int64(cost), int64(b.limit.Rate.Per))
}

// Meter measures admissions against a limit while they happen: the single pass
// of the package comment. Feed it in the order of time. It is not safe for
// concurrent use.
type Meter struct {
	bucket
	worst    wide
	admitted quota.Tokens
}

// NewMeter returns a meter that has seen nothing: the headroom is the burst.
func NewMeter(limit quota.Capacity) *Meter {
	b := newBucket(limit)
	return &Meter{bucket: b, worst: b.full}
}

// Admit counts an admission of cost at the time at.
func (m *Meter) Admit(at quota.Micros, cost quota.Tokens) {
	m.advance(at)
	m.level = m.level.minus(m.costOf(cost))
	m.admitted += cost
	if m.level.less(m.worst) {
		m.worst = m.level
	}
}

// Admitted returns the sum of all costs.
func (m *Meter) Admitted() quota.Tokens { return m.admitted }

// Headroom returns what could still be admitted at now inside the Bound,
// rounded down; it is negative while the Bound is broken.
func (m *Meter) Headroom(now quota.Micros) quota.Tokens {
	ahead := m.bucket
	ahead.advance(now)
	return ahead.level.floorOver(int64(m.limit.Rate.Per))
}

// Worst returns the smallest headroom there ever was, rounded down. Below zero
// it is the worst overshoot over every window, negated.
func (m *Meter) Worst() quota.Tokens { return m.worst.floorOver(int64(m.limit.Rate.Per)) }

// Ideal is one central bucket that admits what fits: what nobody can beat
// without breaking the Bound, and so the denominator of utilization. Offer it
// the same arrivals, in the order of time. It is not safe for concurrent use.
type Ideal struct {
	bucket
	admitted quota.Tokens
}

// NewIdeal returns a central bucket that is full.
func NewIdeal(limit quota.Capacity) *Ideal { return &Ideal{bucket: newBucket(limit)} }

// Offer admits an arrival of cost at the time at when the bucket has the
// tokens, and reports whether it did.
func (i *Ideal) Offer(at quota.Micros, cost quota.Tokens) bool {
	i.advance(at)
	left := i.level.minus(i.costOf(cost))
	if left.hi < 0 {
		return false
	}
	i.level = left
	i.admitted += cost
	return true
}

// Admit counts what is charged whatever the bucket has: it may be in debt from then on.
func (i *Ideal) Admit(at quota.Micros, cost quota.Tokens) {
	i.advance(at)
	i.level = i.level.minus(i.costOf(cost))
	i.admitted += cost
}

// Admitted returns the sum of the costs that were admitted.
func (i *Ideal) Admitted() quota.Tokens { return i.admitted }
