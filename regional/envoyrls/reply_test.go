package envoyrls

import (
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// written is what package proto reads of what is written.
func written(t rapid.TB, d enforce.Decision, style headers.Style, metadata bool) *rls.RateLimitResponse {
	t.Helper()
	b, err := write(nil, &d, style, metadata)
	if err != nil {
		t.Fatal(err)
	}
	m := new(rls.RateLimitResponse)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatalf("%v in %x", err, b)
	}
	return m
}

// Package proto must read in every reply what it would have written itself.
func TestEveryReplyIsTheMessage(t *testing.T) {
	duration := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "ns")) })
	text := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 200, -1), rapid.StringN(120, 140, -1))
	limits := rapid.Custom(func(t *rapid.T) *rules.Limit {
		l := limit(rapid.Uint32().Draw(t, "requests"), time.Second)
		l.Rate.Per = quota.MicrosOf(rapid.SampledFrom([]time.Duration{
			time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour, 5 * time.Minute,
		}).Draw(t, "unit"))
		l.Name = text.Draw(t, "limit")
		return l
	})
	statuses := rapid.Custom(func(t *rapid.T) enforce.Status {
		s := enforce.Status{
			Over: rapid.Bool().Draw(t, "over"), Shadowed: rapid.Bool().Draw(t, "shadowed"), Remaining: rapid.Uint32().Draw(t, "remaining"),
			Reset: duration.Draw(t, "reset"), Retry: duration.Draw(t, "retry"), Delay: duration.Draw(t, "delay"),
			Reason: rapid.SampledFrom([]enforce.Reason{enforce.WithinLease, enforce.LeaseEmpty, enforce.NoRule, enforce.Unlimited}).Draw(t, "reason"),
			Source: rapid.SampledFrom([]enforce.Source{"", enforce.FromLease}).Draw(t, "source"),
		}
		if s.Reason != enforce.NoRule {
			s.Rule = &rules.Rule{ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Metadata: map[string]any{"team": text.Draw(t, "team")}}
			s.Limit = rapid.OneOf(rapid.Just[*rules.Limit](nil), limits).Draw(t, "limit of the rule")
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		d := enforce.Decision{
			Over: rapid.Bool().Draw(t, "denied"), Statuses: rapid.SliceOfN(statuses, 0, 5).Draw(t, "statuses"),
			Retry: duration.Draw(t, "retry of all"), Delay: duration.Draw(t, "delay of all"),
		}
		style := rapid.SampledFrom([]headers.Style{{}, headers.Full(), {Legacy: true, Explain: true}}).Draw(t, "style")
		metadata := rapid.Bool().Draw(t, "metadata")
		if have, want := written(t, d, style, metadata), fromDecision(d, style, metadata); !proto.Equal(have, want) {
			t.Fatalf("want %v, have %v", want, have)
		}
	})
}
