package quoratev1

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// ErrMalformed means that a message of the lease protocol holds a value that no
// correct peer sends: an amount outside its range, a name that is missing. The
// text says which field. Nothing of such a message may be used.
var ErrMalformed = errors.New("malformed lease message")

// MaxKeyBytes bounds the encoding of one key on the wire. The largest request
// an agent accepts cannot produce a longer one.
const MaxKeyBytes = 1 << 20

// maxExact is the largest integer a Redis script represents exactly; sessions,
// epochs and versions are stored by scripts, so they stay below it like amounts.
const maxExact = uint64(quota.MaxTokens)

// FromRequest encodes r. Counts of r.Usage saturate at quota.MaxTokens: an
// absurd demand report must not cost the region the renewal it travels with.
func FromRequest(r quota.SyncRequest) *SyncRequest {
	m := &SyncRequest{
		Seq: r.Seq, Cluster: r.Cluster, Region: r.Region, Agent: r.Agent,
		Incarnation: &Incarnation{Id: r.Incarnation.ID, Replaces: r.Incarnation.Replaces},
		Session:     uint64(r.Session), Drop: r.Drop, Config: r.Config, Leaving: r.Leaving, Forgot: r.Forgot,
	}
	for _, u := range r.Usage {
		m.Usage = append(m.Usage, FromUsage(u))
	}
	for _, a := range r.Applied {
		m.Applied = append(m.Applied, FromApplied(a))
	}
	return m
}

// ToRequest decodes and validates m, which may be nil.
func ToRequest(m *SyncRequest) (quota.SyncRequest, error) {
	if m.GetSeq() == 0 && (m.GetDrop() || m.GetLeaving() || m.GetIncarnation().GetReplaces() != "") {
		return quota.SyncRequest{}, malformed("seq", "0, and what it says wants an answer")
	}
	if m.GetRegion() == "" {
		return quota.SyncRequest{}, malformed("region", "empty")
	}
	if m.GetAgent() == "" {
		return quota.SyncRequest{}, malformed("agent", "empty")
	}
	r := quota.SyncRequest{
		Seq: m.GetSeq(), Cluster: m.GetCluster(), Region: m.GetRegion(), Agent: m.GetAgent(),
		Incarnation: quota.Incarnation{ID: m.GetIncarnation().GetId(), Replaces: m.GetIncarnation().GetReplaces()},
		Drop:        m.GetDrop(), Leaving: m.GetLeaving(), Forgot: m.GetForgot(),
	}
	var err error
	if r.Session, err = ToSession(m.GetSession()); err != nil {
		return quota.SyncRequest{}, err
	}
	if r.Config, err = exact("config", m.GetConfig()); err != nil {
		return quota.SyncRequest{}, err
	}
	if r.Usage, err = each("usage", m.GetUsage(), ToUsage); err != nil {
		return quota.SyncRequest{}, err
	}
	if r.Applied, err = each("applied", m.GetApplied(), ToApplied); err != nil {
		return quota.SyncRequest{}, err
	}
	return r, nil
}

// FromResponse encodes r.
func FromResponse(r quota.SyncResponse) *SyncResponse {
	m := &SyncResponse{
		Seq: r.Seq, Cluster: r.Cluster, Session: uint64(r.Session), TtlUs: r.TTL.Microseconds(),
		First: r.First, Agents: int32(min(max(r.Agents, 0), math.MaxInt32)),
	}
	if r.Config != nil {
		m.Config = FromConfig(*r.Config)
	}
	for _, a := range r.Assignments {
		m.Assignments = append(m.Assignments, FromAssignment(a))
	}
	if r.Lent != nil {
		m.Lent = FromLent(*r.Lent)
	}
	if r.Refusal != nil {
		m.Refusal = &Refusal{Code: RefusalCode(r.Refusal.Code), Message: r.Refusal.Message}
	}
	return m
}

// ToResponse decodes and validates m, which may be nil. A refusal with a code
// of a newer coordinator is kept as it is: its message is for people.
func ToResponse(m *SyncResponse) (quota.SyncResponse, error) {
	r := quota.SyncResponse{
		Seq: m.GetSeq(), Cluster: m.GetCluster(), First: m.GetFirst(), Agents: int(m.GetAgents()),
	}
	if m.GetAgents() < 0 {
		return quota.SyncResponse{}, malformed("agents", "%d is negative", m.GetAgents())
	}
	var err error
	if r.Session, err = ToSession(m.GetSession()); err != nil {
		return quota.SyncResponse{}, err
	}
	if r.TTL, err = ToDuration("ttl_us", m.GetTtlUs()); err != nil {
		return quota.SyncResponse{}, err
	}
	if m.GetConfig() != nil {
		c, err := ToConfig(m.GetConfig())
		if err != nil {
			return quota.SyncResponse{}, err
		}
		r.Config = &c
	}
	if r.Assignments, err = each("assignments", m.GetAssignments(), ToAssignment); err != nil {
		return quota.SyncResponse{}, err
	}
	if m.GetLent() != nil {
		lent, err := ToLent(m.GetLent())
		if err != nil {
			return quota.SyncResponse{}, err
		}
		r.Lent = &lent
	}
	if f := m.GetRefusal(); f != nil {
		r.Refusal = &quota.Refusal{Code: quota.RefusalCode(f.GetCode()), Message: f.GetMessage()}
	}
	return r, nil
}

// FromUsage encodes u; its counts saturate.
func FromUsage(u quota.Usage) *Usage {
	return &Usage{
		Key: []byte(u.Key), WindowUs: max(u.Window.Microseconds(), 0),
		AdmittedMicrotokens: int64(saturate(u.Admitted, 0)), DeniedMicrotokens: int64(saturate(u.Denied, 0)),
		LargestMicrotokens: int64(saturate(u.Largest, 0)), LevelMicrotokens: int64(saturate(u.Level, -quota.MaxTokens)),
		BurstMicrotokens: int64(saturate(u.Burst, 0)), Epoch: uint64(u.Epoch),
	}
}

// ToUsage decodes and validates m.
func ToUsage(m *Usage) (u quota.Usage, err error) {
	if u.Key, err = ToKey(m.GetKey()); err != nil {
		return quota.Usage{}, err
	}
	if u.Window, err = ToDuration("window_us", m.GetWindowUs()); err != nil {
		return quota.Usage{}, err
	}
	for _, f := range []struct {
		name string
		have int64
		min  quota.Tokens
		to   *quota.Tokens
	}{
		{"admitted_microtokens", m.GetAdmittedMicrotokens(), 0, &u.Admitted},
		{"denied_microtokens", m.GetDeniedMicrotokens(), 0, &u.Denied},
		{"largest_microtokens", m.GetLargestMicrotokens(), 0, &u.Largest},
		{"level_microtokens", m.GetLevelMicrotokens(), -quota.MaxTokens, &u.Level},
		{"burst_microtokens", m.GetBurstMicrotokens(), 0, &u.Burst},
	} {
		if *f.to, err = tokens(f.name, f.have, f.min); err != nil {
			return quota.Usage{}, err
		}
	}
	epoch, err := exact("epoch", m.GetEpoch())
	if err != nil {
		return quota.Usage{}, err
	}
	u.Epoch = quota.Epoch(epoch)
	return u, nil
}

// FromApplied encodes a.
func FromApplied(a quota.Applied) *Applied {
	return &Applied{
		Key: []byte(a.Key), Session: uint64(a.Session), Epoch: uint64(a.Epoch),
		SurrenderedMicrotokens: int64(a.Surrendered),
	}
}

// ToApplied decodes and validates m.
func ToApplied(m *Applied) (a quota.Applied, err error) {
	if a.Key, err = ToKey(m.GetKey()); err != nil {
		return quota.Applied{}, err
	}
	if a.Session, a.Epoch, err = toNumber(m.GetSession(), m.GetEpoch()); err != nil {
		return quota.Applied{}, err
	}
	if a.Surrendered, err = tokens("surrendered_microtokens", m.GetSurrenderedMicrotokens(), 0); err != nil {
		return quota.Applied{}, err
	}
	return a, nil
}

// FromAssignment encodes a.
func FromAssignment(a quota.Assignment) *Assignment {
	m := &Assignment{
		Key: []byte(a.Key), Session: uint64(a.Session), Epoch: uint64(a.Epoch),
		Lease: FromCapacity(a.Lease), CreditMicrotokens: int64(a.Credit), Release: a.Release,
		LendUs: a.Lend.Microseconds(), Home: a.Home,
	}
	if a.Loan != nil {
		m.Loan = &Loan{
			Capacity: FromCapacity(a.Loan.Capacity), CreditMicrotokens: int64(a.Loan.Credit), LeftUs: a.Loan.Left.Microseconds(),
		}
	}
	return m
}

// ToAssignment decodes and validates m.
func ToAssignment(m *Assignment) (a quota.Assignment, err error) {
	a.Release, a.Home = m.GetRelease(), m.GetHome()
	if a.Key, err = ToKey(m.GetKey()); err != nil {
		return quota.Assignment{}, err
	}
	if a.Session, a.Epoch, err = toNumber(m.GetSession(), m.GetEpoch()); err != nil {
		return quota.Assignment{}, err
	}
	if a.Lease, err = ToCapacity(m.GetLease()); err != nil {
		return quota.Assignment{}, err
	}
	if a.Credit, err = tokens("credit_microtokens", m.GetCreditMicrotokens(), 0); err != nil {
		return quota.Assignment{}, err
	}
	if a.Lend, err = ToDuration("lend_us", m.GetLendUs()); err != nil {
		return quota.Assignment{}, err
	}
	if m.GetLoan() != nil {
		if a.Loan, err = toLoan(m.GetLoan()); err != nil {
			return quota.Assignment{}, err
		}
	}
	return a, nil
}

func toLoan(m *Loan) (*quota.Loan, error) {
	var l quota.Loan
	var err error
	if l.Capacity, err = ToCapacity(m.GetCapacity()); err != nil {
		return nil, err
	}
	if l.Credit, err = tokens("loan.credit_microtokens", m.GetCreditMicrotokens(), 0); err != nil {
		return nil, err
	}
	if l.Left, err = ToDuration("loan.left_us", m.GetLeftUs()); err != nil {
		return nil, err
	}
	return &l, nil
}

// FromLent encodes l.
func FromLent(l quota.Lent) *Lent {
	m := &Lent{ForUs: l.For.Microseconds()}
	for _, k := range l.Keys {
		m.Keys = append(m.Keys, []byte(k))
	}
	return m
}

// ToLent decodes and validates m.
func ToLent(m *Lent) (l quota.Lent, err error) {
	if l.For, err = ToDuration("lent.for_us", m.GetForUs()); err != nil {
		return quota.Lent{}, err
	}
	l.Keys, err = each("lent.keys", m.GetKeys(), ToKey)
	return l, err
}

// FromCapacity encodes c.
func FromCapacity(c quota.Capacity) *Capacity {
	return &Capacity{
		Rate:             &Rate{Microtokens: int64(c.Rate.Tokens), PerUs: int64(c.Rate.Per)},
		BurstMicrotokens: int64(c.Burst),
	}
}

// ToCapacity decodes and validates m; nil is the zero capacity.
func ToCapacity(m *Capacity) (c quota.Capacity, err error) {
	if c.Rate.Tokens, err = tokens("rate.microtokens", m.GetRate().GetMicrotokens(), 0); err != nil {
		return quota.Capacity{}, err
	}
	per, err := tokens("rate.per_us", m.GetRate().GetPerUs(), 0)
	if err != nil {
		return quota.Capacity{}, err
	}
	if per == 0 && c.Rate.Tokens > 0 {
		return quota.Capacity{}, malformed("rate.per_us", "0 with a rate above 0")
	}
	c.Rate.Per = quota.Micros(per)
	if c.Burst, err = tokens("burst_microtokens", m.GetBurstMicrotokens(), 0); err != nil {
		return quota.Capacity{}, err
	}
	return c, nil
}

// FromConfig encodes c.
func FromConfig(c quota.Config) *Config {
	m := &Config{Version: c.Version, Sources: FromSources(c.Sources)}
	for _, s := range c.Shares {
		m.Shares = append(m.Shares, &Share{Region: s.Region, Weight: s.Weight})
	}
	return m
}

// ToConfig decodes and validates m. The share table must be sorted by region
// without repetition, as both sides compute standing shares from it.
func ToConfig(m *Config) (c quota.Config, err error) {
	if c.Version, err = exact("config.version", m.GetVersion()); err != nil {
		return quota.Config{}, err
	}
	c.Sources = ToSources(m.GetSources())
	for i, s := range m.GetShares() {
		if s.GetRegion() == "" || i > 0 && s.GetRegion() <= c.Shares[i-1].Region {
			return quota.Config{}, malformed("config.shares", "region %q is empty, repeated or out of order", s.GetRegion())
		}
		if w := s.GetWeight(); w < 0 || w > quota.MaxWeight {
			return quota.Config{}, malformed("config.shares", "weight %d of region %q is outside 0…%d", w, s.GetRegion(), quota.MaxWeight)
		}
		c.Shares = append(c.Shares, quota.Share{Region: s.GetRegion(), Weight: s.GetWeight()})
	}
	return c, nil
}

// FromSources encodes rule documents.
func FromSources(sources []quota.Source) []*Source {
	var out []*Source
	for _, s := range sources {
		out = append(out, &Source{Name: s.Name, Text: s.Text})
	}
	return out
}

// ToSources decodes rule documents; what they say is package rules' business.
func ToSources(m []*Source) []quota.Source {
	var out []quota.Source
	for _, s := range m {
		out = append(out, quota.Source{Name: s.GetName(), Text: s.GetText()})
	}
	return out
}

// ToKey validates the encoding of a key as far as this layer knows it.
func ToKey(b []byte) (quota.Key, error) {
	if len(b) == 0 {
		return "", malformed("key", "empty")
	}
	if len(b) > MaxKeyBytes {
		return "", malformed("key", "%d bytes, at most %d are allowed", len(b), MaxKeyBytes)
	}
	return quota.Key(b), nil
}

// ToSession validates a session number; 0 is no session.
func ToSession(n uint64) (quota.SessionID, error) {
	n, err := exact("session", n)
	return quota.SessionID(n), err
}

// ToDuration converts microseconds to a duration, which must not be negative.
func ToDuration(field string, us int64) (time.Duration, error) {
	if us < 0 || us > math.MaxInt64/int64(time.Microsecond) {
		return 0, malformed(field, "%d us is not a duration", us)
	}
	return time.Duration(us) * time.Microsecond, nil
}

// toNumber validates what numbers an assignment; both are positive.
func toNumber(session, epoch uint64) (quota.SessionID, quota.Epoch, error) {
	if session == 0 || session > maxExact {
		return 0, 0, malformed("session", "%d does not number a session", session)
	}
	if epoch == 0 || epoch > maxExact {
		return 0, 0, malformed("epoch", "%d does not number an assignment", epoch)
	}
	return quota.SessionID(session), quota.Epoch(epoch), nil
}

func tokens(field string, have int64, least quota.Tokens) (quota.Tokens, error) {
	if t := quota.Tokens(have); t >= least && t <= quota.MaxTokens {
		return t, nil
	}
	return 0, malformed(field, "%d is outside %d…%d", have, least, quota.MaxTokens)
}

func exact(field string, have uint64) (uint64, error) {
	if have > maxExact {
		return 0, malformed(field, "%d is above %d", have, maxExact)
	}
	return have, nil
}

func saturate(t, least quota.Tokens) quota.Tokens { return min(max(t, least), quota.MaxTokens) }

// each decodes a repeated field; nil stays nil.
func each[M, T any](field string, in []M, decode func(M) (T, error)) ([]T, error) {
	var out []T
	for i, m := range in {
		t, err := decode(m)
		if err != nil {
			return nil, fmt.Errorf("decode %s[%d]: %w", field, i, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func malformed(field, format string, args ...any) error {
	return fmt.Errorf("%w: field %s: %s", ErrMalformed, field, fmt.Sprintf(format, args...))
}
