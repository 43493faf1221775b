package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/quorate/quorate/regional/enforce"
)

// The problem types of the IETF draft "RateLimit header fields for HTTP".
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Problem is the body of every answer that is not 200 (RFC 9457).
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
	// RetryAfterS is the Retry-After header field.
	RetryAfterS int64 `json:"retry_after_s,omitempty"`
	// Never says that the cost can never fit the limit: waiting does not help.
	Never bool `json:"never,omitempty"`
}

func problem(w http.ResponseWriter, p Problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	writeJSON(w, "application/problem+json", p.Status, p)
}

// fail answers a request for which there is no decision.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrBadRequest), errors.Is(err, enforce.ErrEmptyDomain), errors.Is(err, enforce.ErrNoDescriptors):
		status = http.StatusBadRequest
	case errors.Is(err, enforce.ErrNoConfig):
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled):
		// The client has gone; 499 is what proxies log for it.
		status = 499
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	problem(w, Problem{Status: status, Title: title(status), Detail: err.Error()})
}

func title(status int) string {
	if status == 499 {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}
