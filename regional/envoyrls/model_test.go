package envoyrls

import (
	"fmt"
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// What follows is what the front end does with the wire format, said with the generated
// messages.

// toRequest is what call.read has to make of a message.
func toRequest(m *rls.RateLimitRequest) (enforce.Request, error) {
	r := enforce.Request{Domain: m.GetDomain(), Hits: m.GetHitsAddend()}
	for i, d := range m.GetDescriptors() {
		to := enforce.Descriptor{Refund: d.GetIsNegativeHits()}
		for _, e := range d.GetEntries() {
			to.Entries = append(to.Entries, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		if d.GetHitsAddend() != nil {
			hits := d.GetHitsAddend().GetValue()
			to.Hits = &hits
		}
		if l := d.GetLimit(); l != nil {
			var err error
			if to.Override, err = toOverride(l); err != nil {
				return enforce.Request{}, fmt.Errorf("descriptors[%d].limit: %w; without `limit` the rule's own counts", i, err)
			}
		}
		r.Descriptors = append(r.Descriptors, to)
	}
	return r, nil
}

func toOverride(l *common.RateLimitDescriptor_RateLimitOverride) (rules.Override, error) {
	unit := rules.UnitUnknown
	if n := l.GetUnit(); n > 0 && n <= math.MaxUint8 {
		unit = rules.Unit(n)
	}
	if n := l.GetUnitMultiplier().GetValue(); n > 1 {
		return rules.Override{}, fmt.Errorf("%w: unit_multiplier %d: a request's limit is for one unit; leave it out", rules.ErrOverride, n)
	}
	return rules.NewOverride(l.GetRequestsPerUnit(), unit)
}

// fromDecision is what write has to make of a decision.
func fromDecision(d enforce.Decision, style headers.Style, metadata bool) *rls.RateLimitResponse {
	m := &rls.RateLimitResponse{
		OverallCode: rls.RateLimitResponse_Code(codeOf(d.Over)),
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, len(d.Statuses)),
	}
	for i := range d.Statuses {
		m.Statuses[i] = fromStatus(&d.Statuses[i])
	}
	var now time.Time
	if style.Epoch {
		now = time.Now()
	}
	for _, h := range headers.Render(d, style, now) {
		m.ResponseHeadersToAdd = append(m.ResponseHeadersToAdd, &corev3.HeaderValue{Key: h.Name, Value: h.Value})
	}
	if metadata {
		m.DynamicMetadata = metadataOf(&d)
	}
	return m
}

func fromStatus(s *enforce.Status) *rls.RateLimitResponse_DescriptorStatus {
	out := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_Code(codeOf(s.Over))}
	switch {
	case s.Reason == enforce.Unlimited:
		out.LimitRemaining = math.MaxUint32
	case s.Limit != nil:
		out.LimitRemaining = s.Remaining
		out.DurationUntilReset = durationpb.New(max(s.Reset, 0))
		out.CurrentLimit = &rls.RateLimitResponse_RateLimit{
			Name:            nameOf(s.Rule, s.Limit),
			RequestsPerUnit: s.Limit.RequestsPerUnit,
			Unit:            unitOf(headers.Window(s.Limit)),
		}
	}
	return out
}
