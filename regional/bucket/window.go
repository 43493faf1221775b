package bucket

import "github.com/quorate/quorate/coordinator/quota"

// Window says how a bucket counts.
//
// In a sliding window a token is a place for one admission, which keeps it for the
// length of the window and then leaves it. So a capacity has no rate, its period is the
// window's length, and the level is its burst less the places that are occupied: below
// zero where the capacity has shrunk meanwhile. It is the same log or count whatever the
// bucket runs on, so neither a lease that ends nor another that begins frees a place.
type Window uint8

const (
	// NoWindow is a token bucket.
	NoWindow Window = iota
	// LogWindow is a sliding log.
	LogWindow
	// CounterWindow is a sliding counter.
	CounterWindow
)

// Places are those of one key that are occupied. The zero Places are none.
type Places struct {
	Log   log
	Count Count
}

func (p Places) at(kind Window, now, length quota.Micros) Places {
	if kind == CounterWindow {
		return Places{Count: p.Count.at(now, length)}
	}
	return Places{Log: p.Log.at(now, length)}
}

func (p Places) occupied(kind Window, now, length quota.Micros) quota.Tokens {
	if kind == CounterWindow {
		return p.Count.occupied(now, length)
	}
	return p.Log.occupied()
}

// add occupies places. There are never more than MaxTokens.
func (p Places) add(kind Window, now, length quota.Micros, cost quota.Tokens) Places {
	cost = min(cost, quota.MaxTokens-p.occupied(kind, now, length))
	switch {
	case cost <= 0:
	case kind == CounterWindow:
		p.Count.Cur += cost
	default:
		p.Log = p.Log.add(now, cost)
	}
	return p
}

func (p Places) wait(kind Window, now, length quota.Micros, need quota.Tokens) quota.Micros {
	if kind == CounterWindow {
		return p.Count.wait(now, length, need)
	}
	return p.Log.wait(now, length, need)
}

func (p Places) over(kind Window, now, length quota.Micros) quota.Micros {
	if kind == CounterWindow {
		return p.Count.over(now, length)
	}
	return p.Log.over(now, length)
}

// fresh is over once something is admitted at now.
func (p Places) fresh(kind Window, now, length quota.Micros) quota.Micros {
	if kind == CounterWindow {
		return 2*length - (now - p.Count.Start)
	}
	if n := len(p.Log); n > 0 {
		return max(length, p.Log[n-1].At-(now-length))
	}
	return length
}

// frame is a bucket of a sliding window at one moment, and not yet charged.
type frame struct {
	Places
	kind       Window
	at, length quota.Micros
	held       quota.Tokens // what the ledger counts for the region
}

// frame finds the places of a key at time; see balance for the others.
//
// Of a standing share only Base was free at Since, as far as anybody knows: a record
// that is older, or none, does not know who had the rest. It counts as admitted then.
func (r Region) frame(time, high quota.Micros, rec Record, found bool, p Places, st Standing, mode Mode) (b Balance, f frame) {
	f = frame{kind: st.Window, at: time, length: st.Rate.Per}
	if found {
		f.at, f.Places = max(time, rec.At), p
	}
	if unknown := !found || rec.At < st.Since; unknown {
		f.at = max(f.at, st.Since)
		f.lose(st.Since, st.Burst-st.Base)
	}
	f.Places = f.Places.at(f.kind, f.at, f.length)

	live := r.live(high)
	b = Balance{Holding: OnStanding, Capacity: quota.Capacity{Rate: quota.Rate{Per: f.length}, Burst: st.Burst}, Missing: !found}
	switch {
	case found && r.leased(rec) && (live || mode == ModeHold):
		if b.Holding = OnLease; !live {
			b.Holding = OnHold
		}
		b.Capacity.Burst, b.Epoch = rec.Aim, rec.Epoch
		if rec.Leaving {
			b.Capacity.Burst = min(rec.Aim, st.Burst)
		}
	case !live && mode == ModeDeny:
		b.Holding = Denied
	case !live && mode == ModeAllow:
		b.Holding = Allowed
	case st.Burst <= 0:
		b.Holding, b.Capacity.Burst = OnNothing, 0
	}
	f.held = b.Capacity.Burst
	if b.Epoch > 0 {
		f.held = rec.Lease.Burst
	}
	f.tell(&b)
	return b, f
}

// lose occupies places from a time on that nothing else is known of; it is later than
// all that is known.
func (f *frame) lose(since quota.Micros, lost quota.Tokens) {
	if f.kind == CounterWindow {
		f.Count = f.Count.at(since, f.length)
	} else if f.Log = f.Log.at(f.at, f.length); since <= f.at-f.length {
		return
	}
	f.Places = f.add(f.kind, since, f.length, lost)
}

// tell sets what a balance says of the places.
func (f *frame) tell(b *Balance) {
	b.Level = b.Capacity.Burst - f.occupied(f.kind, f.at, f.length)
	b.Reset = f.over(f.kind, f.at, f.length)
	b.Fresh = f.fresh(f.kind, f.at, f.length)
	b.Back = f.Log.occupied()
	if f.kind == CounterWindow {
		b.Back = f.Count.Cur
	}
}

// occupied moves what a balance says by places that have just been taken, or given
// back where there are fewer.
func (b *Balance) occupied(more quota.Tokens) {
	if b.Back += more; more > 0 {
		b.Reset = b.Fresh
	}
}

// charge occupies places.
func (f *frame) charge(cost quota.Tokens) { f.Places = f.add(f.kind, f.at, f.length, cost) }

// until returns how long until a bucket at level holds cost, 0 when it does, and when
// it never will with this capacity.
func (f *frame) until(b *Balance, cost quota.Tokens) quota.Micros {
	if cost <= b.Level || cost > b.Capacity.Burst {
		return 0
	}
	return f.wait(f.kind, f.at, f.length, cost-b.Level)
}

// settle makes the places what a balance says of them since it was told.
func (f *frame) settle(b *Balance) {
	switch more := b.Capacity.Burst - b.Level - f.occupied(f.kind, f.at, f.length); {
	case more > 0:
		f.charge(more)
	case more < 0 && f.kind == CounterWindow:
		f.Count.Cur += more
	case more < 0:
		f.Log = f.Log.back(-more)
	}
}

// occupy makes the windows among the buckets what is left of them after a run of which n
// requests were admitted, and returns how long the others wait.
func (r Run) occupy(frames []frame, left []Balance, n int) []quota.Micros {
	waits := make([]quota.Micros, len(frames))
	for i := range frames {
		f, b, cost := &frames[i], &left[i], max(r.Costs[i], 0)
		if f.kind == NoWindow {
			continue
		}
		f.settle(b)
		if n < r.Count {
			waits[i] = f.until(b, cost)
		}
	}
	return waits
}

// Await says how long those wait whom a run of requests has denied, see TakeRuns.
func Await(buckets []Balance, waits []quota.Micros) {
	for i, w := range waits {
		buckets[i].Wait = w
	}
}

// keep stores a bucket of a sliding window, until all its places are free.
func (s *Store) keep(now quota.Micros, key quota.Key, rec Record, f frame) {
	if rec.Session != s.region.Session {
		rec = Record{}
	}
	rec.Level, rec.At, rec.Incarnation = 0, f.at, s.region.Incarnation
	life := f.at - now + f.over(f.kind, f.at, f.length) + slack
	if rec.Epoch > 0 {
		life += leaseLife
	}
	life = min(life, maxLife)
	s.records[key] = stored{Record: rec, places: f.Places, life: life, expires: now + life}
}

// Places returns what is stored of a sliding window's places.
func (s *Store) Places(key quota.Key) Places {
	p := s.records[key].places
	p.Log = p.Log.clone()
	return p
}

// occupy is Charge for a sliding window.
func (s *Store) occupy(now, high quota.Micros, c Charge) {
	rec, found := s.find(c.Key)
	_, f := s.region.frame(now, high, rec, found, s.records[c.Key].places, c.Standing, ModeStanding)
	f.charge(c.Tokens)
	s.keep(now, c.Key, rec, f)
}

// resize is Apply for a sliding window. The region gives up what is not occupied of
// what it has beyond the new lease, and admits by the new lease from now on, so that it
// can give up the rest later. Until then that is a part of its lease still.
func (s *Store) resize(now quota.Micros, a quota.Assignment, rec Record, found bool, st Standing) (surrendered quota.Tokens) {
	_, f := s.region.frame(now, s.high, rec, found, s.records[a.Key].places, st, ModeStanding)
	next := Record{Session: a.Session, Epoch: a.Epoch}
	burst := max(a.Lease.Burst, f.kept())
	next.Surrendered = max(0, f.held-burst)
	if next.Released = a.Release && burst == a.Lease.Burst; !next.Released {
		next.Lease, next.Aim, next.Leaving = quota.Capacity{Rate: a.Lease.Rate, Burst: burst}, a.Lease.Burst, a.Release
	}
	s.keep(now, a.Key, next, f)
	return next.Surrendered
}

// kept is what a region cannot give up of what it has, in whole tokens as leases are.
func (f *frame) kept() quota.Tokens {
	occupied := f.occupied(f.kind, f.at, f.length)
	if rest := occupied % quota.Token; rest > 0 {
		occupied = min(occupied, quota.MaxTokens-quota.Token) + quota.Token - rest
	}
	return min(occupied, f.held)
}
