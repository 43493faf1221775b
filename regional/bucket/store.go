package bucket

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Store is a region's store in memory: the reference for the Redis scripts, and
// the store of the simulator. Every method takes the store's own clock, the
// counterpart of Redis TIME; it may go backward. A Store is not safe for
// concurrent use, as a step of Redis is not concurrent either.
type Store struct {
	records map[quota.Key]stored
	region  Region
	since   quota.Micros
	first   bool
	config  Adopted
	prev    Adopted
	// lent is until when which shares are away, and lents how often that changed;
	// known says that the coordinator has told this incarnation of the loans before it.
	lent  map[quota.Key]quota.Micros
	lents uint64
	known bool
	// high is the largest time a region operation has seen. Deadlines are
	// compared with it, so that a clock that steps back revives no lease.
	high quota.Micros
}

type stored struct {
	Record
	places  Places
	life    quota.Micros // from its last write
	expires quota.Micros
}

// NewStore returns an empty store without an incarnation.
func NewStore() *Store {
	return &Store{records: make(map[quota.Key]stored), lent: make(map[quota.Key]quota.Micros)}
}

// Clone returns a copy that shares nothing: what a replica or a dump would hold.
func (s *Store) Clone() *Store {
	c := *s
	c.records, c.lent = maps.Clone(s.records), maps.Clone(s.lent)
	for k, r := range c.records {
		r.places.Log = r.places.Log.clone()
		c.records[k] = r
	}
	return &c
}

// Len returns the number of records.
func (s *Store) Len() int { return len(s.records) }

// Current reports whether the store lives the incarnation and has adopted the
// configuration. A take that names others is stale.
func (s *Store) Current(incarnation string, config uint64) bool {
	return s.region.Incarnation == incarnation && s.region.Config == config
}

// Read returns the record of key as it is stored.
func (s *Store) Read(key quota.Key) (Record, bool) {
	r, ok := s.records[key]
	return r.Record, ok
}

// Life returns how long the record of key lives from its last write, 0 without one.
func (s *Store) Life(key quota.Key) quota.Micros { return s.records[key].life }

// Sweep drops the records whose lifetime is over and returns their keys.
func (s *Store) Sweep(now quota.Micros) []quota.Key {
	var gone []quota.Key
	for k, r := range s.records {
		if r.expires <= now {
			gone = append(gone, k)
			delete(s.records, k)
		}
	}
	return gone
}

func (s *Store) find(key quota.Key) (Record, bool) {
	r, ok := s.records[key]
	if !ok || r.Incarnation != s.region.Incarnation {
		return Record{}, false
	}
	return r.Record, true
}

// write stores a bucket. What it held in an older session is cleared: it can
// never be in force again.
func (s *Store) write(now quota.Micros, key quota.Key, rec Record, inForce quota.Capacity, standing Standing) {
	if rec.Session != s.region.Session {
		rec = Record{Level: rec.Level, At: rec.At, Away: rec.Away, Drawn: rec.Drawn, DrawnUntil: rec.DrawnUntil}
	}
	rec.Incarnation = s.region.Incarnation
	life := standing.life(rec.Level, inForce, rec.Epoch > 0, rec.Away-now)
	s.records[key] = stored{Record: rec, life: life, expires: now + life}
}

// Take asks all buckets at once: all are charged, or given back to, or none. The
// verdicts are in the order of the asks. A bucket asked for nothing is only looked
// at, a bucket that admits because of its mode is not charged.
func (s *Store) Take(now quota.Micros, asks []Ask) (admitted bool, verdicts []Verdict) {
	merged, index := Merge(asks)
	run := Run{Count: 1, Costs: make([]quota.Tokens, len(merged))}
	for i := range merged {
		run.Costs[i] = merged[i].Cost
	}
	start, n, waits, grants := s.TakeRuns(now, merged, []Run{run})
	Await(start, waits[0])
	verdicts = Verdicts(merged, start, 0, n[0])
	for i, g := range grants {
		verdicts[i].Grant = g
	}
	return n[0] == 1, Spread(verdicts, index)
}

// TakeRuns serves many requests for the same buckets, each of them once in asks
// (whose costs are ignored), as if they came one after another: runs says in which
// order, and what each asks for. It returns the buckets as they were before the
// first request, and of each run how many requests were admitted, and how long those
// wait for each sliding window that were not. Where asks want to draw ahead, that is done
// after all runs, if one request was admitted at least, and grants says how much of each
// bucket; else it is nil.
func (s *Store) TakeRuns(now quota.Micros, asks []Ask, runs []Run) (start []Balance, admitted []int, waits [][]quota.Micros, grants []Grant) {
	high := max(now, s.high)
	start = make([]Balance, len(asks))
	ats := make([]quota.Micros, len(asks))
	frames := make([]frame, len(asks))
	for i, a := range asks {
		rec, found := s.find(a.Key)
		if a.Standing.Window != NoWindow {
			start[i], frames[i] = s.region.frame(now, high, rec, found, s.records[a.Key].places, a.Standing, a.Mode)
			continue
		}
		start[i], ats[i] = s.region.balance(now, high, rec, found, a.Standing, a.Mode)
	}
	left := slices.Clone(start)
	admitted, waits = make([]int, len(runs)), make([][]quota.Micros, len(runs))
	for i, r := range runs {
		admitted[i] = r.Admit(asks, left)
		r.Charge(asks, left, admitted[i])
		waits[i] = r.occupy(frames, left, admitted[i])
	}
	if slices.ContainsFunc(asks, func(a Ask) bool { return a.Ahead > 0 }) {
		grants = make([]Grant, len(asks))
	}
	draws := grants != nil && slices.ContainsFunc(admitted, func(n int) bool { return n > 0 })
	for i, a := range asks {
		rec, _ := s.find(a.Key)
		if draws {
			grants[i] = s.region.draw(&a, &left[i], &rec, high, ats[i])
		}
		if b := left[i]; b.changed {
			if a.Standing.Window != NoWindow {
				s.keep(now, a.Key, rec, frames[i])
				continue
			}
			rec.Level, rec.At = b.Level, ats[i]-b.Unspent
			if b.Holding == OnNothing {
				b.Capacity = a.Standing.Capacity // it pays when that is back
			}
			s.write(now, a.Key, rec, b.Capacity, a.Standing)
		}
	}
	return start, admitted, waits, grants
}

// Charge takes tokens that were admitted while the store was away. A level may
// go below zero, not below Debt. What the charges say of missing records is about
// one incarnation, and so of no use in another.
func (s *Store) Charge(now quota.Micros, incarnation string, charges []Charge) error {
	if s.region.Incarnation != incarnation {
		return fmt.Errorf("charge %d keys: %w", len(charges), ErrIncarnation)
	}
	high := max(now, s.high)
	for _, c := range charges {
		if c.Standing.Window != NoWindow {
			s.occupy(now, high, c)
			continue
		}
		rec, found := s.find(c.Key)
		b, at := s.region.balance(now, high, rec, found, c.Standing, ModeStanding)
		rec.Level, rec.At = max(b.Level-c.Tokens, Debt), at-b.Unspent
		if b.Holding == OnNothing {
			b.Capacity = c.Standing.Capacity // it pays when that is back
		}
		s.write(now, c.Key, rec, b.Capacity, c.Standing)
	}
	return nil
}

// Apply applies an assignment once. A repeat returns the stored answer.
func (s *Store) Apply(now quota.Micros, incarnation string, ask ApplyAsk) (quota.Applied, error) {
	a, st := ask.Assignment, ask.Standing
	answer := quota.Applied{Key: a.Key, Session: a.Session, Epoch: a.Epoch}
	if s.region.Incarnation != incarnation {
		return answer, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, ErrIncarnation)
	}
	s.high = max(s.high, now)
	rec, found := s.find(a.Key)
	same := found && rec.Session == a.Session
	switch {
	case a.Session == 0 || a.Session != s.region.Session:
		return answer, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, ErrOldSession)
	case same && a.Epoch == rec.Epoch && rec.Epoch > 0:
		answer.Surrendered = rec.Surrendered
		// While it is lent nothing is charged, so it was written when it was lent.
		if a.Lend > 0 && s.high < min(rec.At+Notice, rec.Away) {
			return answer, fmt.Errorf("lend %q: %w", a.Key, ErrSettling)
		}
		if rec.unsettled(s.high, a.Lease.Burst) {
			return answer, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, ErrSettling)
		}
		return answer, nil
	case s.high >= s.region.Deadline:
		return answer, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, ErrExpired)
	case a.Epoch == 0 || same && a.Epoch < rec.Epoch:
		return answer, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, ErrStaleEpoch)
	}

	if st.Window != NoWindow {
		if st.Config != s.region.Config {
			return answer, fmt.Errorf("apply assignment %d of %q by configuration %d: %w", a.Epoch, a.Key, st.Config, ErrOldConfig)
		}
		answer.Surrendered = s.resize(now, a, rec, found, st)
		return answer, nil
	}
	b, at := s.region.balance(now, s.high, rec, found, st, ModeStanding)
	next := Record{
		At: at, Session: a.Session, Epoch: a.Epoch, Released: a.Release, Away: rec.Away,
		Drawn: rec.Drawn, DrawnUntil: rec.DrawnUntil,
	}
	credit, inForce := a.Credit, st.Capacity
	if !a.Release {
		next.Lease, inForce = a.Lease, a.Lease
		if rec.Session == a.Session {
			next.Loan, next.LoanUntil = rec.Loan, rec.LoanUntil
		}
		if a.Loan != nil {
			next.Loan, next.LoanUntil = a.Loan.Capacity, ask.LoanUntil
			if s.high < ask.LoanUntil {
				credit += a.Loan.Credit
			}
		}
		if next.Loan.Rate.Per != a.Lease.Rate.Per || next.LoanUntil <= s.high {
			next.Loan, next.LoanUntil = quota.Capacity{}, 0 // over, or the limit's period has changed
		}
	}
	// The time not yet turned into tokens is given up: at the new rate it would
	// be worth more than it was earned at.
	next.Level, next.Surrendered = deposit(b.Level, credit, room(a.Lease.Burst+next.Loan.Burst, next.held(s.high)))
	if a.Home && next.Away > 0 {
		next.Away = 0
		delete(s.lent, a.Key)
		s.lents++
	}
	if a.Lend > 0 {
		next.Away = max(next.Away, max(at, s.high)+quota.MicrosOf(a.Lend))
		s.lent[a.Key] = next.Away
		s.lents++
	}
	s.write(now, a.Key, next, inForce, st)
	answer.Surrendered = next.Surrendered
	if next.unsettled(s.high, a.Lease.Burst) {
		return answer, fmt.Errorf("apply assignment %d of %q: %w", a.Epoch, a.Key, ErrSettling)
	}
	if a.Lend > 0 {
		return answer, fmt.Errorf("lend %q: %w", a.Key, ErrSettling)
	}
	return answer, nil
}

// Lend records what the coordinator says an earlier incarnation has on loan, for as
// long from now. With that this incarnation knows what standing shares it has.
func (s *Store) Lend(now quota.Micros, incarnation string, lends []LendAsk, span quota.Micros) error {
	if s.region.Incarnation != incarnation {
		return fmt.Errorf("take over %d loans: %w", len(lends), ErrIncarnation)
	}
	s.high = max(s.high, now)
	for _, l := range lends {
		rec, found := s.find(l.Key)
		if !found {
			rec = Record{At: now}
		}
		rec.Away = max(rec.Away, max(rec.At, s.high)+span)
		s.lent[l.Key] = rec.Away
		standing := l.Share
		if standing.Burst <= 0 {
			standing = quota.Capacity{Burst: quota.MaxTokens} // unknown yet: kept until the next write
		}
		inForce := standing
		if s.region.leased(rec) {
			inForce = rec.Lease
		}
		s.write(now, l.Key, rec, inForce, Standing{Capacity: standing})
	}
	s.known = true
	s.lents++
	return nil
}

// Lent returns until when which standing shares are on loan, those that are over left
// out.
func (s *Store) Lent(now quota.Micros) map[quota.Key]quota.Micros {
	high := max(now, s.high)
	maps.DeleteFunc(s.lent, func(_ quota.Key, until quota.Micros) bool { return until <= high })
	return maps.Clone(s.lent)
}

// deposit adds credit to level and cuts it to burst; what is cut is surrendered.
// It never forms a sum beyond MaxTokens, which a script could not represent.
func deposit(level, credit, burst quota.Tokens) (kept, surrendered quota.Tokens) {
	if level >= 0 && credit > burst-level {
		return burst, min(credit-(burst-level), quota.MaxTokens)
	}
	level += credit
	return min(level, burst), max(0, level-burst)
}
