package ledger

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/quorate/quorate/coordinator/quota"
)

// Hash returns the hash of the whole state (I8). It costs time in the number of
// regions and configurations, not of accounts: each account's digest is added
// up as it changes.
func (l *Ledger) Hash() [32]byte {
	var e encoder
	e.uint(l.index)
	e.uint(l.term)
	e.int(int64(l.at))
	e.int(int64(l.clock))
	e.text(l.cluster)
	e.text(l.leader.Node)
	e.text(l.leader.Address)
	e.uint(uint64(l.sessions))
	e.uint(uint64(len(l.regions)))
	for _, r := range l.regions {
		r.encode(&e)
	}
	e.uint(l.current().RulesVersion)
	e.uint(uint64(len(l.configs)))
	for _, c := range l.configs {
		c.encode(&e)
	}
	e.uint(uint64(len(l.marks)))
	for _, m := range l.marks {
		e.text(m.limit)
		e.int(int64(m.base))
		e.int(int64(m.at))
		e.int(int64(m.until))
	}
	e.uint(uint64(len(l.accounts)))
	e.uint(l.sum)
	return sha256.Sum256(e.buf)
}

func (r *Region) encode(e *encoder) {
	e.text(r.Name)
	e.text(r.First)
	e.bool(r.Late)
	e.uint(r.Confirmed)
	e.uint(r.Offered)
	e.bool(r.Session != nil)
	if s := r.Session; s != nil {
		e.uint(uint64(s.ID))
		e.text(s.Incarnation)
		e.bool(s.Silent)
		e.int(int64(s.SilentSince))
		e.uint(uint64(s.Epochs))
	}
}

func (c *Config) encode(e *encoder) {
	e.uint(c.Version)
	e.uint(c.RulesVersion)
	for _, s := range c.Sources {
		e.text(s.Name)
		e.text(s.Text)
	}
	for _, s := range c.Shares {
		e.text(s.Region)
		e.int(s.Weight)
	}
}

// digest is the account's part in the state hash.
func (a *Account) digest() uint64 {
	e := encoder{buf: make([]byte, 0, 256)}
	e.text(string(a.Key))
	e.text(a.terms.rule)
	e.capacity(a.terms.limit.Capacity)
	e.capacity(a.terms.sum)
	e.int(int64(a.level))
	e.int(int64(a.at))
	for _, h := range a.held {
		e.text(h.Region)
		e.uint(uint64(h.Epoch))
		e.bool(h.Leased)
		e.capacity(h.Lease)
		e.bool(h.Flight != nil)
		if f := h.Flight; f != nil {
			e.capacity(f.Lease)
			e.int(int64(f.Credit))
			e.bool(f.Release)
		}
	}
	a.encodeLoans(&e)
	a.encodeWindow(&e)
	d := sha256.Sum256(e.buf)
	return binary.LittleEndian.Uint64(d[:])
}

// encodeLoans adds what concerns loans, and nothing where nothing does: such
// accounts hash as they did before there were loans.
func (a *Account) encodeLoans(e *encoder) {
	for _, h := range a.held {
		if f := h.Flight; f != nil && (f.Lends > 0 || f.Borrows) {
			e.text(h.Region)
			e.int(int64(f.Lends))
			e.uint(f.Term)
			e.int(int64(f.At))
			e.bool(f.Borrows)
			for _, lender := range f.Lenders {
				e.text(lender)
			}
			e.int(int64(f.Borrowed))
		}
	}
	for _, n := range a.loans {
		e.text(n.Lender)
		e.capacity(n.Capacity)
		e.int(int64(n.Tokens))
		e.uint(n.Term)
		e.int(int64(n.At))
		e.int(int64(n.For))
		e.text(n.Borrower)
	}
}

// encodeWindow adds what concerns sliding windows, and nothing for a bucket.
func (a *Account) encodeWindow(e *encoder) {
	if a.sliding() == 0 {
		return
	}
	e.int(int64(a.sliding()))
	for _, r := range a.returns {
		e.int(int64(r.At))
		e.int(int64(r.Tokens))
	}
}

// encoder writes values in one unambiguous form.
type encoder struct{ buf []byte }

func (e *encoder) uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)   { e.buf = binary.AppendVarint(e.buf, v) }

func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
	} else {
		e.uint(0)
	}
}

func (e *encoder) text(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) capacity(c quota.Capacity) {
	e.int(int64(c.Rate.Tokens))
	e.int(int64(c.Rate.Per))
	e.int(int64(c.Burst))
}
