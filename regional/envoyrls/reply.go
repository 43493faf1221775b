package envoyrls

import (
	"fmt"
	"math"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// write appends an envoy.service.ratelimit.v3.RateLimitResponse to m.
func write(m []byte, d *enforce.Decision, style headers.Style, metadata bool) ([]byte, error) {
	m = appendNumber(m, responseOverallCode, codeOf(d.Over))
	at := 0
	for i := range d.Statuses {
		m, at = begin(m, responseStatuses)
		m = end(writeStatus(m, &d.Statuses[i]), at)
	}
	if !style.None() {
		var now time.Time
		if style.Epoch {
			now = time.Now()
		}
		for _, h := range headers.Render(*d, style, now) {
			m, at = begin(m, responseResponseHeadersToAdd)
			m = end(appendText(appendText(m, headerKey, h.Name), headerValue, h.Value), at)
		}
	}
	if metadata {
		var err error
		m, at = begin(m, responseDynamicMetadata)
		if m, err = (proto.MarshalOptions{}).MarshalAppend(m, metadataOf(d)); err != nil {
			return nil, fmt.Errorf("encode dynamic metadata: %w", err)
		}
		m = end(m, at)
	}
	return m, nil
}

func writeStatus(m []byte, s *enforce.Status) []byte {
	m = appendNumber(m, statusCode, codeOf(s.Over))
	switch {
	case s.Reason == enforce.Unlimited:
		m = appendNumber(m, statusLimitRemaining, math.MaxUint32)
	case s.Limit != nil:
		m, at := begin(m, statusCurrentLimit)
		m = appendNumber(m, limitRequestsPerUnit, uint64(s.Limit.RequestsPerUnit))
		m = appendNumber(m, limitUnit, uint64(unitOf(headers.Window(s.Limit))))
		m = end(appendText(m, limitName, nameOf(s.Rule, s.Limit)), at)
		m = appendNumber(m, statusLimitRemaining, uint64(s.Remaining))
		reset := max(s.Reset, 0)
		m, at = begin(m, statusDurationUntilReset)
		m = appendNumber(m, durationSeconds, uint64(reset/time.Second))
		return end(appendNumber(m, durationNanos, uint64(reset%time.Second)), at)
	}
	return m
}

func codeOf(over bool) uint64 {
	if over {
		return uint64(rls.RateLimitResponse_OVER_LIMIT)
	}
	return uint64(rls.RateLimitResponse_OK)
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
func metadataOf(d *enforce.Decision) *structpb.Struct {
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
