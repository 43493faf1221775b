package envoyrls

import (
	"fmt"
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// toRequest reads Envoy's message. A weight of the request counts at least 1, a
// weight of a descriptor may be 0 and then only looks (case K23). Negative hits are
// given back (case K24). The error is rules.ErrOverride and says which descriptor's
// limit cannot be counted.
func toRequest(m *rls.RateLimitRequest) (enforce.Request, error) {
	r := enforce.Request{Domain: m.GetDomain(), Hits: m.GetHitsAddend()}
	r.Descriptors = make([]enforce.Descriptor, len(m.GetDescriptors()))
	entries := 0
	for _, d := range m.GetDescriptors() {
		entries += len(d.GetEntries())
	}
	all := make([]rules.Entry, 0, entries)
	for i, d := range m.GetDescriptors() {
		start := len(all)
		for _, e := range d.GetEntries() {
			all = append(all, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		r.Descriptors[i].Entries = all[start:len(all):len(all)]
		r.Descriptors[i].Refund = d.GetIsNegativeHits()
		if d.GetHitsAddend() != nil {
			hits := d.GetHitsAddend().GetValue()
			r.Descriptors[i].Hits = &hits
		}
		if l := d.GetLimit(); l != nil {
			o, err := toOverride(l)
			if err != nil {
				return enforce.Request{}, fmt.Errorf("descriptors[%d].limit: %w; without `limit` the rule's own counts", i, err)
			}
			r.Descriptors[i].Override = o
		}
	}
	return r, nil
}

// toOverride reads a limit. Envoy's units have the numbers of rules.Unit.
func toOverride(l *common.RateLimitDescriptor_RateLimitOverride) (rules.Override, error) {
	unit := rules.UnitUnknown
	if n := l.GetUnit(); n > 0 && n <= math.MaxUint8 {
		unit = rules.Unit(n)
	}
	return rules.NewOverride(l.GetRequestsPerUnit(), unit)
}

// fromDecision writes Envoy's message.
func fromDecision(d enforce.Decision, style headers.Style, metadata bool) *rls.RateLimitResponse {
	m := &rls.RateLimitResponse{
		OverallCode: codeOf(d.Over),
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
		m.DynamicMetadata = metadataOf(d)
	}
	return m
}

func fromStatus(s *enforce.Status) *rls.RateLimitResponse_DescriptorStatus {
	out := &rls.RateLimitResponse_DescriptorStatus{Code: codeOf(s.Over)}
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

func codeOf(over bool) rls.RateLimitResponse_Code {
	if over {
		return rls.RateLimitResponse_OVER_LIMIT
	}
	return rls.RateLimitResponse_OK
}

// nameOf returns the name the rule document gives the limit, empty without one.
func nameOf(r *rules.Rule, l *rules.Limit) string {
	if l.Name != "" || r == nil {
		return l.Name
	}
	return r.Name
}

// unitOf names a period in Envoy's units. A period that is no whole unit (five
// minutes) has no name there: UNKNOWN, for which Envoy leaves out the window,
// rather than a unit that would state another limit.
func unitOf(period time.Duration) rls.RateLimitResponse_RateLimit_Unit {
	const day = 24 * time.Hour
	switch period {
	case time.Second:
		return rls.RateLimitResponse_RateLimit_SECOND
	case time.Minute:
		return rls.RateLimitResponse_RateLimit_MINUTE
	case time.Hour:
		return rls.RateLimitResponse_RateLimit_HOUR
	case day:
		return rls.RateLimitResponse_RateLimit_DAY
	case 7 * day:
		return rls.RateLimitResponse_RateLimit_WEEK
	case 30 * day:
		return rls.RateLimitResponse_RateLimit_MONTH
	case 365 * day:
		return rls.RateLimitResponse_RateLimit_YEAR
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}

// metadataOf tells the proxy's access log and filters which rules decided and
// why, shadow rules included, and for how long to hold back what shaped limits admit:
// Envoy's own filter cannot.
func metadataOf(d enforce.Decision) *structpb.Struct {
	list := &structpb.ListValue{}
	for i := range d.Statuses {
		s := &d.Statuses[i]
		fields := map[string]*structpb.Value{
			"reason": structpb.NewStringValue(string(s.Reason)),
			"over":   structpb.NewBoolValue(s.Over),
			"shadow": structpb.NewBoolValue(s.Shadowed),
		}
		if s.Source != "" {
			fields["source"] = structpb.NewStringValue(string(s.Source))
		}
		if s.Over {
			fields["scope"] = structpb.NewStringValue(s.Reason.Scope())
		}
		if s.Delay > 0 {
			fields["delay_ms"] = milliseconds(s.Delay)
		}
		if s.Rule != nil {
			fields["rule"] = structpb.NewStringValue(s.Rule.ID)
			if md, err := structpb.NewStruct(s.Rule.Metadata); err == nil && len(s.Rule.Metadata) > 0 {
				fields["metadata"] = structpb.NewStructValue(md)
			}
		}
		list.Values = append(list.Values, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
	}
	fields := map[string]*structpb.Value{"descriptors": structpb.NewListValue(list)}
	if d.Delay > 0 {
		fields["delay_ms"] = milliseconds(d.Delay)
	}
	return &structpb.Struct{Fields: fields}
}

func milliseconds(d time.Duration) *structpb.Value {
	return structpb.NewNumberValue(float64(headers.Milliseconds(d)))
}
