// Package problem says in a body (RFC 9457) why a request was not served, for
// every HTTP front end alike.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// The problem types of the IETF draft "RateLimit header fields for HTTP".
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Problem is the body of an answer that is not 200.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// ViolatedPolicies names the limits that deny, as in RateLimit-Policy.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
	// Rule and Reason say what denies and why; the reasons are those of package enforce.
	Rule   string         `json:"rule,omitempty"`
	Reason enforce.Reason `json:"reason,omitempty"`
	// Source and Scope say whose tokens were not enough, and whether the region or
	// the world is out of them.
	Source enforce.Source `json:"source,omitempty"`
	Scope  string         `json:"scope,omitempty"`
	// RetryAfterS is the Retry-After header field.
	RetryAfterS int64 `json:"retry_after_s,omitempty"`
	// Never says that the cost can never fit the limit: waiting does not help.
	Never bool `json:"never,omitempty"`
}

// Denied returns the problem of a decision that denies.
func Denied(d enforce.Decision) Problem {
	p := Problem{
		Type: QuotaExceeded, Status: http.StatusTooManyRequests,
		Title:       "Request cannot be satisfied as assigned quota has been exceeded",
		RetryAfterS: headers.RetrySeconds(d),
	}
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if !s.Over || s.Rule == nil {
			continue
		}
		p.ViolatedPolicies = append(p.ViolatedPolicies, headers.PolicyName(s.Rule, s.Limit))
		p.Never = p.Never || s.Never
	}
	bind := headers.Binding(d)
	if bind == nil {
		return p
	}
	p.Rule, p.Reason, p.Source, p.Scope = bind.Rule.ID, bind.Reason, bind.Source, bind.Reason.Scope()
	p.Detail = detail(bind.Reason, p.RetryAfterS)
	if bind.Reason == enforce.StoreDegraded || bind.Reason == enforce.CoordinatorUnreachable {
		p.Type, p.Title = ReducedCapacity, "Request cannot be satisfied due to temporary server capacity constraints"
	}
	return p
}

// detail is the reason in a sentence, for whoever reads the body.
func detail(reason enforce.Reason, retry int64) string {
	after := ", retry after " + strconv.FormatInt(retry, 10) + " s"
	switch reason {
	case enforce.LeaseEmpty:
		return "what this region holds of the limit is used up" + after
	case enforce.GlobalExhausted:
		return "the limit is used up" + after
	case enforce.CoordinatorUnreachable:
		return "this region is cut off from the coordinator and its part of the limit is used up" + after
	case enforce.StoreDegraded:
		return "the store of this region is away and what may be served without it is used up" + after
	case enforce.DelayTooLong:
		return "the requests before this one take longer to leave than it can wait" + after
	case enforce.BurstExceeded:
		return "the request costs more than the limit ever holds; it is never served"
	case enforce.ZeroLimit:
		return "the limit is zero; it is never served"
	}
	return "denied" + after
}

// Write answers with p.
func Write(w http.ResponseWriter, p Problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	b, err := json.Marshal(p)
	if err != nil { // a struct of text and numbers
		http.Error(w, "encode problem: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n'))
}
