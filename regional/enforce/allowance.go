package enforce

import (
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// allowances are tokens that this agent drew ahead from the store's buckets for keys that
// are asked for all the time, so that most requests for them need no script call.
//
// The record of the bucket counts them as drawn (package bucket), and they may be used for
// a tenth of a second at most: the agent counts that from before it asked, on a clock of
// which it believes every fiftieth part less. So the bound stays what it is. What a
// request does not find here it asks of the store, all its buckets together, and one of
// those who ask draws for all. A request of several keys takes from all their allowances
// or from none.
//
// Only what is asked for and plainly counted is paid from here: not a look, a refund, a
// settlement, a shaped limit (its delay needs the level) or a window.
type allowances struct {
	shards [allowanceShards]allowanceShard
}

const (
	// heatSpan is the time in which requests for a key are counted.
	heatSpan = 100 * time.Millisecond
	// hot is from how many requests in it on a key has an allowance.
	hot = 16
	// sameSlot is by how much the ends of draws differ at most that end together.
	sameSlot = heatSpan / 8
	// slow is what the local clock may be slow while tokens are used, twice 1 %.
	slow = 50

	allowanceShards = 32
	// maxAllowances of all keys have one at a time, of maxAllowanceKey bytes: at most
	// 10 MB with the names, usually a hundredth of it.
	maxAllowances   = 8192
	maxAllowanceKey = 512
	// allowanceLife is how long a key without requests keeps its place at least.
	allowanceLife = 10 * time.Second
	heatCells     = 256
)

// allowanceShard has two generations of allowances, like denialShard.
type allowanceShard struct {
	mu         sync.Mutex
	young, old map[quota.Key]*allowance
	turned     time.Duration
	// heat counts the requests for keys without an allowance. Keys may share a cell: then
	// a cold one has an allowance, which is no harm.
	heat [heatCells]heat
}

// heat is a number of requests in one heatSpan.
type heat struct{ span, count uint32 }

// allowance is what the agent has of one key.
type allowance struct {
	key quota.Key

	mu        sync.Mutex
	left      quota.Tokens
	until     time.Duration  // of left
	bucket    bucket.Balance // as the store told of it, less what was used since
	connected bool
	drawing   bool          // somebody is on the way
	barren    time.Duration // until then nobody asks to draw alone, as there was too little
	known     time.Duration // until then a request for it is remembered, see repeats
	// spending is how many tokens were asked for in the heatSpan that began at began, and
	// spent in the one before.
	began           time.Duration
	spending, spent quota.Tokens
}

// spanOf tells heatSpans apart.
func spanOf(now time.Duration) uint32 { return uint32(now / heatSpan) }

// find returns the allowance of a key that is asked for now, nil for one that has none.
// It counts the request.
func (as *allowances) find(now time.Duration, key []byte) *allowance {
	if len(key) > maxAllowanceKey {
		return nil
	}
	h := hash(key)
	s := &as.shards[h%allowanceShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.young[quota.Key(key)]; a != nil {
		return a
	}
	s.turn(now)
	a := s.old[quota.Key(key)]
	if a == nil {
		cell := &s.heat[h/allowanceShards%heatCells]
		if span := spanOf(now); cell.span != span {
			*cell = heat{span: span}
		}
		if cell.count++; cell.count < hot || len(s.young)+len(s.old) >= maxAllowances/allowanceShards {
			return nil
		}
		a = &allowance{key: quota.Key(key)}
	}
	if s.young == nil {
		s.young = make(map[quota.Key]*allowance)
	}
	s.young[a.key] = a
	return a
}

// turn drops the keys that nobody has asked for in a while.
func (s *allowanceShard) turn(now time.Duration) {
	age := now - s.turned
	if age < allowanceLife {
		return
	}
	s.young, s.old = nil, s.young
	if age >= 2*allowanceLife {
		s.old = nil
	}
	s.turned = now
}

// clear drops all of them. What a request on its way still draws or spends is of the time
// before, as the request is.
func (as *allowances) clear() {
	for i := range as.shards {
		s := &as.shards[i]
		s.mu.Lock()
		s.young, s.old = nil, nil
		s.mu.Unlock()
	}
}

// hash is FNV-1a, so that a simulation can be replayed.
func hash[T ~string | ~[]byte](key T) uint32 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return h
}

// count notes what is asked for.
func (a *allowance) count(now time.Duration, cost quota.Tokens) {
	switch age := now - a.began; {
	case age >= 2*heatSpan:
		a.began, a.spending, a.spent = now, 0, 0
	case age >= heatSpan:
		a.began, a.spending, a.spent = a.began+heatSpan, 0, a.spending
	}
	a.spending = min(a.spending+cost, quota.MaxTokens)
}

// spend takes the cost of a request. Where it does not, ahead is what the request is to
// draw when it asks the store; then drew has to be called.
func (a *allowance) spend(now time.Duration, it *item) (ahead quota.Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cost := it.ask.Cost
	a.count(now, cost)
	enough := a.has(now, cost)
	if !enough || a.low(now, cost) {
		// While this one asks, the others live on the rest.
		ahead = a.draw(now, cost)
	}
	if enough && ahead == 0 {
		a.pay(it)
	}
	return ahead
}

// spare is spend for who does not ask the store: it reports false where spend would draw
// or would not pay, and then nothing has happened.
func (a *allowance) spare(now time.Duration, it *item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	cost := it.ask.Cost
	a.count(now, cost)
	if !a.has(now, cost) || a.low(now, cost) && !a.drawing {
		a.spending -= cost
		return false
	}
	a.pay(it)
	return true
}

// remember reports whether a request for it is to be remembered, as none is.
func (a *allowance) remember(now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now < a.known {
		return false
	}
	a.known = now + repeatLife
	return true
}

// has reports whether the allowance can pay.
func (a *allowance) has(now time.Duration, cost quota.Tokens) bool {
	return now < a.until && a.left >= cost
}

// low reports whether it is time to draw more when a cost is paid.
func (a *allowance) low(now time.Duration, cost quota.Tokens) bool {
	return a.left-cost < a.busy()/32 && a.until-now > heatSpan/10 && now >= a.barren
}

// pay pays for an item and answers it.
func (a *allowance) pay(it *item) {
	a.left -= it.ask.Cost
	it.paid, it.v, it.connected = a.until, bucket.Judge(&it.ask, a.bucket, true), a.connected
	a.bucket.Level -= it.ask.Cost
}

// busy is how much is asked for in a heatSpan.
func (a *allowance) busy() quota.Tokens { return max(a.spending, a.spent) }

// draw is how much whoever asks now draws for requests of that cost, 0 while somebody
// else does. What is left over in the end is lost, so the first draw is for half of a
// heatSpan, and those after it for the rest of the time, which is known then.
func (a *allowance) draw(now time.Duration, cost quota.Tokens) quota.Tokens {
	if a.drawing {
		return 0
	}
	a.drawing = true
	part := a.busy() / 2
	if now < a.until {
		part = quota.Tokens(float64(a.busy()) * float64(a.until-now) / float64(heatSpan))
	}
	return max(part, cost) // never 0: who draws nothing does not say that it is done
}

// giveBack undoes a spend of tokens that were good until then. Where others have come in
// their place they are lost: those of one slot must not be used in the next.
func (a *allowance) giveBack(cost quota.Tokens, until time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until != until {
		return
	}
	a.left += cost
	a.bucket.Level += cost
}

// drew ends a draw: v is the store's verdict on the request that asked at a time, nil
// when there was none.
func (a *allowance) drew(at time.Duration, v *bucket.Verdict, connected bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drawing = false
	if v == nil || v.Grant.Tokens == 0 {
		a.barren = at + heatSpan/4
		return
	}
	until := at + (v.Grant.Span - v.Grant.Span/slow - 1).Duration()
	if at >= a.until || until-a.until > sameSlot {
		a.left = 0 // of a slot that is over
	} else {
		until = min(until, a.until)
	}
	a.left, a.until = a.left+v.Grant.Tokens, until
	a.bucket = bucket.Balance{Holding: v.Holding, Level: v.Level, Unspent: v.Unspent, Capacity: v.Capacity, Epoch: v.Epoch}
	a.connected = connected
}
